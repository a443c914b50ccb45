"""Dashboard: HTML pages of the board, readable without the script that keeps them fresh."""
