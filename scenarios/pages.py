"""Pages on disk: a report is written whole or not at all."""

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path

from models.errors import InputError


def write_report(path: Path | str, html: str, force: bool = False) -> Path:
    """The path of the page, written in one step; an existing file is replaced only with `force`
    (InputError).
    """
    target = Path(path)
    if target.is_dir():
        raise InputError.at(str(target), "a directory", "must be the path of a file", "as in report.html")
    if target.exists() and not force:
        raise InputError.at(str(target), "a file", "is not overwritten", "use --force")
    written = target.with_name(f".{target.name}.new-{secrets.token_hex(4)}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        written.write_text(html, encoding="utf-8")
        written.replace(target)
    except OSError as error:
        raise InputError.at(str(target), "", "cannot be written", error.strerror or str(error)) from None
    finally:
        with suppress(OSError):
            written.unlink()
    return target
