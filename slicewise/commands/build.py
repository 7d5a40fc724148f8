"""`slicewise build`: a folder becomes an image in the state folder."""

from __future__ import annotations

from pathlib import Path

import click

from slicewise.commands.options import state_dir_option


@click.command("build")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--tag", "-t", "name", required=True, help="Name of the image.")
@click.option("--lang", "template", default="python3-http", show_default=True, help="Template of the handler.")
@click.option("--constraints", type=click.Path(path_type=Path), help="A pip constraints file for requirements.txt.")
@state_dir_option
def build_command(directory: Path, name: str, template: str, constraints: Path | None, state_dir: Path | None) -> None:
    """Register DIRECTORY (handler.py, requirements.txt, perhaps a Dockerfile) as an image."""
    from functions.service import bundles
    from slicewise.launcher.layout import Layout, default_state_dir

    layout = Layout((state_dir or default_state_dir()).absolute())
    layout.make()
    digest = bundles.build(
        directory,
        name,
        layout.images,
        lambda step: click.echo(f"{name}: {step}", err=True),
        template=template,
        constraints=constraints,
    )
    click.echo(f"Built {name}: sha256:{digest}")
