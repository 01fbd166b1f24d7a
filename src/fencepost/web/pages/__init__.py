"""One module for each page: what it shows, as HTML and as JSON."""
