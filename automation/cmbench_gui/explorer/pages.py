"""The pages of results: an address into a view, a view into what a template shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from cmbench.errors import Error
from cmbench_gui.explorer import details, drawings, plot, table, view
from cmbench_gui.explorer.source import Short, source_of
from cmbench_gui.explorer.view import ExplorerView
from cmbench_gui.pages import environment, page, rendered, visible
from cmbench_results import export, query
from cmbench_results.values import to_json

_ALONE = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'"}
_KINDS = {"scatter": "Scatter", "bars": "Ranking", "course": "Over time"}

Values = Mapping[str, Any]


def _view(request: Request) -> ExplorerView:
    return view.read(request.query_params.multi_items())


async def _shown(
    request: Request, template: str, values: Callable[[], Values], short: Short = lambda: False
) -> Response:
    """Return the page that a template makes of values, which are computed where no cache has it."""
    source = source_of(request)

    def make() -> bytes:
        return bytes(page(request, f"explorer/{template}.html", **values()).body)

    address = f"{request.url.path}?{request.url.query}"
    return Response(await source.page(address, make, short), media_type="text/html")


def _tabs(seen: ExplorerView) -> list[tuple[str, str, str]]:
    drawings = [(name, kind, replace(seen, draw=kind, page=1)) for kind, name in _KINDS.items()]
    tabs = [("Table", "table", replace(seen, page=1).at("/results"))]
    return tabs + [(name, kind, drawing.at("/results/plot")) for name, kind, drawing in drawings]


def _common(seen: ExplorerView, path: str) -> dict[str, Any]:
    chosen = [
        (column, value, seen.toggles(path, column)(value))
        for column, values in seen.wanted.columns.items()
        for value in values
    ]
    return {
        "view": seen,
        "tabs": _tabs(seen),
        "chosen": chosen,
        "basket": "&".join(f"id={uid}" for uid in seen.basket),
        "emptied": replace(seen, basket=()),
        "facet_titles": table.FACETS,
    }


async def results(request: Request) -> Response:
    """The table of results with its facets."""
    seen, source = _view(request), source_of(request)

    def values() -> Values:
        store = source.store()
        known = source.columns()
        rows, facets = table.table(store, seen, known), table.facets(store, seen, known)
        return {**_common(seen, "/results"), "table": rows, "facets": facets, "here_tab": "table"}

    def short() -> bool:
        known = source.known()
        return known is not None and known.at_once(seen.wanted, seen.sort)

    return await _shown(request, "table", values, short)


async def drawing(request: Request) -> Response:
    """A plot of results."""
    seen, source = _view(request), source_of(request)

    def values() -> Values:
        store = source.store()
        axes = {name: plot.title(name) for name in view.AXES}
        colours = [(name, name) for name in view.COLOURS]
        chosen = {"axes": axes, "colours": colours, "here_tab": seen.draw}
        made = {"whole": replace(seen, ranges={}), "plot": drawings.draw(store, seen)}
        return {**_common(seen, "/results/plot"), **chosen, **made}

    return await _shown(request, "plot", values)


async def svg(request: Request) -> Response:
    """The same plot as a file of its own."""
    seen, source = _view(request), source_of(request)

    def make() -> bytes:
        return _svg(drawings.draw(source.store(), seen))

    address = f"{request.url.path}?{request.url.query}"
    headers = {**_ALONE, "content-disposition": 'inline; filename="results.svg"'}
    body = await source.page(address, make)
    return Response(body, media_type="image/svg+xml", headers=headers)


def _svg(drawing: plot.Plot) -> bytes:
    if drawing.chart is None:
        raise Error("no-results", drawing.title, hint="choose one benchmark and scenario")
    components: Any = environment().get_template("components.html").module
    styles = rendered("style.css")
    frame = drawing.chart.frame
    size = f'width="{frame.width:g}" height="{frame.height:g}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} '
    style = f"<style>{styles} svg {{ background: var(--card); }}</style>"
    drawn = visible(str(components.chart(drawing.chart))).strip().replace("<svg ", head, 1)
    return drawn.replace(">", f">{style}", 1).encode()


async def exported(request: Request) -> Response:
    """All results that the view has, as CSV or JSON."""
    seen, source = _view(request), source_of(request)
    store = await source.work(source.store)
    kind = request.path_params["kind"]
    writers = {"csv": export.csv_lines, "json": export.json_lines}
    if kind not in writers:
        raise Error(
            "file-not-found", f"results are not available as {kind}", hint="take csv or json"
        )
    costs = seen.costs() if seen.priced else None

    settings = await source.work(lambda: query.names_of_settings(store, seen.wanted))

    def rows() -> Iterator[query.Row]:
        described = query.with_settings(store, query.iterate_results(store, seen.wanted, seen.sort))
        for row in export.flat(described, settings) if kind == "csv" else described:
            yield {**row, view.COST: costs.per_million(row)} if costs else row

    headers = {"content-disposition": f'attachment; filename="results.{kind}"'}
    media = {"csv": "text/csv; charset=utf-8", "json": "application/json"}[kind]
    return StreamingResponse(writers[kind](rows()), media_type=media, headers=headers)


async def compared(request: Request) -> Response:
    """Results side by side: ``?id=…&id=…``."""
    uids = [_uid(uid) for uid in request.query_params.getlist("id")][: view.BASKET]
    source = source_of(request)
    return await _shown(
        request, "compare", lambda: {"side": details.side(source.store(), uids), "uids": uids}
    )


def _uid(value: str) -> str:
    if 4 <= len(value) <= 16 and set(value) <= set("0123456789abcdef"):
        return value
    raise Error("result-not-found", f"{value[:40]!r} is not an id of a result", hint="see /results")


async def result(request: Request) -> Response:
    """All that is known of one result."""
    uid, source = _uid(request.path_params["uid"]), source_of(request)
    return await _shown(request, "result", lambda: {"detail": details.detail(source.store(), uid)})


async def result_json(request: Request) -> Response:
    """The same as it is stored."""
    uid, source = _uid(request.path_params["uid"]), source_of(request)
    result = await source.work(lambda: source.store().result(uid))
    return Response(to_json(result), media_type="application/json")


async def file(request: Request) -> Response:
    """One of the files of a result, as text: nothing in it is run."""
    uid, source = _uid(request.path_params["uid"]), source_of(request)
    number = request.path_params["number"]

    def read() -> tuple[str, bytes]:
        return details.text_of(source.store().result(uid), number)

    name, content = await source.work(read)
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name)
    headers = {"content-disposition": f'inline; filename="{plain}"'}
    return PlainTextResponse(content, headers=headers)


async def machine(request: Request) -> Response:
    """A system, and what was measured on it."""
    name, source = _uid(request.path_params["system"]), source_of(request)
    return await _shown(
        request, "machine", lambda: {"machine": details.machine(source.store(), name)}
    )
