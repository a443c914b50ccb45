"""Verification: what is compared of a stream, by which texts and sums, and what a comparison can come to."""
