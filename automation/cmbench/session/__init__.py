"""One call of the user: what was asked, and the repositories, index and store it works with."""
