"""What may be removed from the lake: decided from what is proven to be needed no more, recorded, then removed."""
