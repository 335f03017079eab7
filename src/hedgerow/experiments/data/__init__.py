"""Loaders of public data sets: rows with one label each, or (row, class) pairs with a yes or no each."""
