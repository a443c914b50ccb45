"""The other tools of the comparison, installed beside the repository, and the programs that run them."""
