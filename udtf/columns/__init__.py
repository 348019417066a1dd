"""What operators share of columns: keys, times, rows and orders as numpy arrays, and the loops over them."""
