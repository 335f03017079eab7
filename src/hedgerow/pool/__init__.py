"""The pool's data: matrices and vectors from arrays, tables and files; the user's ids; tables out."""

from hedgerow.pool.ids import Ids, align, find_ids, match_ids, open_ids
from hedgerow.pool.listings import Labels, Listing, find_rows, read_labels, read_listing
from hedgerow.pool.matrices import Matrix, as_matrix, as_vector, count_rows, holds_vector, open_matrix
from hedgerow.pool.outputs import check_target, make_table, read_metadata, write_table
from hedgerow.pool.tables import Table, open_source

__all__ = [
    "Ids",
    "Labels",
    "Listing",
    "Matrix",
    "Table",
    "align",
    "as_matrix",
    "as_vector",
    "check_target",
    "count_rows",
    "find_ids",
    "find_rows",
    "holds_vector",
    "make_table",
    "match_ids",
    "open_ids",
    "open_matrix",
    "open_source",
    "read_labels",
    "read_listing",
    "read_metadata",
    "write_table",
]
