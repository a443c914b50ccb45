"""What a person does to marks, and how marks are looked at: chosen, weighed, checked and rebuilt before they move."""
