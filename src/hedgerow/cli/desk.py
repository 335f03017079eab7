"""`hedgerow desk`: the web page on which people label."""

from pathlib import Path
from typing import Annotated

import typer

from hedgerow.cli.campaigns import Database, Folder

LOOPBACK = "127.0.0.1"


def desk(
    folder: Folder,
    roots: Annotated[
        list[Path] | None,
        typer.Option(
            "--root",
            metavar="FOLDER",
            help="Folder with the files that the examples' uris name; can be given several times. Nothing else is "
            "ever shown.",
        ),
    ] = None,
    annotators: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="People who label, each with a personal link: ana,ben:adjudicate,eva:own. Roles: label (the default), "
            "adjudicate (decides disputed examples too) and own (everything).",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Your own name as an annotator. Default: the user's.")] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; any but this machine's own needs --annotators.")
    ] = LOOPBACK,
    port: Annotated[
        int | None, typer.Option(help="Port to listen on. Default: the one the campaign had before, or one from 8931.")
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(metavar="FILE", help="Certificate, to be reached by https.")] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="Key of the certificate.")] = None,
    root_path: Annotated[str, typer.Option(metavar="PATH", help="Path under which a proxy serves the desk.")] = "",
    allow_hosts: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="Name by which browsers reach the desk, e.g. a proxy's."),
    ] = None,
    media_hosts: Annotated[
        list[str] | None,
        typer.Option("--media-host", metavar="NAME", help="Host from which browsers may load https examples."),
    ] = None,
    new_links: Annotated[
        bool, typer.Option("--new-links", help="Make new personal links; the old ones stop working.")
    ] = False,
    template: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="HTML template of an example, with {{column}} for a column's value."),
    ] = None,
    fields: Annotated[
        Path | None,
        typer.Option(metavar="TABLE", help="Table with the columns of the template, found by the examples' ids."),
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the link.")] = False,
    database: Database = None,
) -> None:
    """Label in a browser: one example, one key.

    Prints a link that works once, and opens it. The desk can be reached from this machine only, unless --host says
    otherwise. Ctrl+C stops it; answers not yet in the campaign stay in the browser until the desk is back.
    """
    from hedgerow.desk import serve

    serve(
        folder,
        database=database,
        host=host,
        port=port,
        annotators=annotators,
        name=name,
        roots=roots or (),
        tls_cert=tls_cert,
        tls_key=tls_key,
        root_path=root_path,
        allow_hosts=allow_hosts or (),
        media_hosts=media_hosts or (),
        new_links=new_links,
        template=template,
        fields=fields,
        browser=not no_browser,
        say=lambda line: typer.echo(line),
    )
