"""Examples shown by a template: their columns, from the campaign and from a table beside it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hedgerow.desk.columns import Columns, open_columns
from hedgerow.desk.media import cut_text
from hedgerow.desk.templates import CONTENT, Part, list_fields, read_template
from hedgerow.errors import InputError

ID = "id"
FOLDER = "columns"  # of the campaign, with copies of tables


@dataclass(frozen=True, eq=False)
class Card:
    """How examples are shown. parts: of the template. own: columns of the campaign; names: those of the table."""

    parts: list[Part]
    own: list[str]
    names: list[str]
    columns: Columns | None

    @classmethod
    def of(
        cls, template: str | Path | None, fields: str | Path | None, content: str | None, folder: Path
    ) -> "Card | None":
        """The card of a template and a table, checked; None without a template.

        content: what the campaign holds. folder: that of the campaign.
        """
        if template is None:
            if fields is not None:
                raise InputError("fields are shown by a template: give --template FILE, too")
            return None
        parts = read_template(template)
        columns = None if fields is None else open_columns(fields, folder / FOLDER)
        there = {} if columns is None else columns.table.types
        own = [ID, CONTENT, *([] if content is None or content in there else [content])]
        used = list_fields(parts)
        missing = [name for name in used if name not in own and name not in there]
        if missing:
            known = ", ".join(dict.fromkeys([*own, *there]))
            more = "" if columns else "; name a table that has it with --fields"
            raise InputError(f"{template} shows {{{{{missing[0]}}}}}, but the columns are {known}{more}")
        own.remove(CONTENT)  # no value, but what a page shows without a template
        return cls(
            parts,
            [name for name in used if name in own],
            [name for name in used if name not in (*own, CONTENT)],
            columns,
        )

    def read(self, ids: Sequence[int | str], contents: Sequence[str | None]) -> list[dict[str, str] | None]:
        """The values of each example; None where the table does not have it."""
        held = self.columns.read(ids, self.names) if self.columns and self.names else [{} for _ in ids]
        own = [
            {name: str(id_) if name == ID else cut_text(content or "") for name in self.own}
            for id_, content in zip(ids, contents, strict=True)
        ]
        return [None if values is None else values | mine for values, mine in zip(held, own, strict=True)]
