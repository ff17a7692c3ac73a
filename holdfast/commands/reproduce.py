"""`holdfast reproduce`: what papers claim, beside what comes out here."""

from __future__ import annotations

from typing import Annotated

import typer

_CLAIM_FAILS = 4


def reproduce(
    studies: Annotated[list[str] | None, typer.Argument(metavar="[STUDY]...", help="Studies; all without")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer seeds")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit code 4 if a claim that was tried fails")] = False,
    workers: Annotated[int, typer.Option(min=1, help="Processes")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print an array with one entry for each claim")] = False,
) -> None:
    """Try the claims of papers again: each with the paper's value, ours, its tolerance, and whether it holds."""
    from holdfast import terminal  # noqa: PLC0415
    from holdfast.progress import progress  # noqa: PLC0415
    from holdfast.run_tables import claims_tables  # noqa: PLC0415
    from scenarios.reproduce.claims import reproduce as try_again  # noqa: PLC0415

    with progress() as talk:
        rows = try_again(studies or (), quick=quick, workers=workers, talk=talk)
    if as_json:
        terminal.print_json(rows)
    else:
        terminal.show(*claims_tables(rows))
    if strict and any(row["holds"] is False for row in rows):
        raise typer.Exit(_CLAIM_FAILS)
