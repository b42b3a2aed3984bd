"""The site and the report of the demo in Chromium: search, navigation, pictures, copying code, dark mode, widths.

``PPDINF_SITE`` names the folder of the built site, and ``PPDINF_DEMO`` the folder of the demo's report; `.ci/run`
writes both. The accessibility rules are those of axe-core.
"""

import functools
import http.server
import os
import re
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest

import ppdinf as ppd

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [pytest.mark.deep, pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")]
api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

TERMS = {  # what a new user types, and a page that the search must list
    "suppressed": "ppdinf.suppressed", "public total": "ppdinf.invariants.total", "epsilon": "glossary",
    "privacy loss": "glossary", "R-hat": "glossary", "nutpie": "inference", "Poisson": "analyst",
    "census": "ppdinf.census",
    "margin": "ppdinf.invariants.margin", "budget": "sessions", "rounding": "ppdinf.laws.Rounded",
    "GeneralizedLaplace": "ppdinf.GeneralizedLaplace", "denoise": "ppdinf.denoise", "zCDP": "glossary",
    "diagnose": "ppdinf.diagnose", "BYM2": "ppdinf.models.log_rates", "TopDown": "ppdinf.TopDown",
    "identified bounds": "ppdinf.identified_bounds", "command line": "command_line",
    "errata": "errata", "fiber": "glossary", "CDC WONDER": "publishers", "ACS margin of error": "publishers",
    "NHS suppression": "publishers", "percent": "publishers",
}  # fmt: skip
WIDTHS = (400, 1400)
OF_THE_THEME = ("scrollable-region-focusable", "summary-name", "link-name")  # code that scrolls; menu; thumbnails
"""Accessibility rules that elements of pydata-sphinx-theme and sphinx-gallery break."""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        """A page that is left early does not take the rest of a file."""


def served(folder):
    """Serve a folder on a free port; return the server and its address."""
    server = Server(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_port}"


def folder_of(variable):
    folder = os.environ.get(variable)
    if not folder:
        pytest.skip(f"{variable} is not set")
    return Path(folder)


@pytest.fixture(scope="module")
def browser():
    with api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def site():
    server, address = served(folder_of("PPDINF_SITE"))
    yield address
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def report():
    server, address = served(folder_of("PPDINF_DEMO"))
    yield f"{address}/report.html"
    server.shutdown()
    server.server_close()


@pytest.fixture
def page(browser):
    """A page that fails the test if a script fails or a file is missing."""
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    errors, tab = [], context.new_page()
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.on(
        "response", lambda response: errors.append(f"{response.status} {response.url}") if response.status >= 400 else 0
    )
    yield tab
    context.close()
    assert errors == []


def broken_images(page):
    return page.evaluate("[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)")


def overflow(page):
    """Return by how many pixels a page is wider than the window."""
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def violations(page, *ignored):
    """Return the serious violations of accessibility rules, with an element each."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page, options={"preload": False}).response["violations"]
    return [(v["id"], v["nodes"][0]["html"][:120]) for v in found
            if v["impact"] in ("serious", "critical") and v["id"] not in ignored]  # fmt: skip


def test_search_finds_twenty_terms(site, page):
    assert len(TERMS) == 25
    missing = {}
    for term, target in TERMS.items():
        page.goto(f"{site}/search.html?q={term}")
        page.wait_for_function("document.querySelector('#search-results p.search-summary, #search-results ul')")
        page.wait_for_selector("#search-results li a")
        page.wait_for_timeout(300)
        links = page.eval_on_selector_all("#search-results li a", "links => links.map(a => a.href)")
        if not any(target.lower() in link.lower() for link in links[:10]):
            missing[term] = [link.removeprefix(site) for link in links[:4]]
    assert missing == {}


def test_navigation_leads_to_every_section(site, page):
    page.goto(f"{site}/index.html")
    links = page.eval_on_selector_all(".navbar-nav a.nav-link, .dropdown-menu a.nav-link", "a => a.map(x => x.href)")
    assert len(set(links)) >= 10
    for link in set(links):
        page.goto(link)
        assert page.locator("h1").count() == 1, link


def test_gallery_has_pictures(site, page):
    page.goto(f"{site}/gallery/index.html")
    assert page.locator(".sphx-glr-thumbcontainer").count() >= 15
    for image in page.locator(".sphx-glr-thumbcontainer img").all():
        image.scroll_into_view_if_needed()
    page.wait_for_load_state("networkidle")
    assert broken_images(page) == []
    page.locator(".sphx-glr-thumbcontainer a").first.click()
    assert page.locator("h1").count() == 1


FAILED = re.compile(r"Do not use|DiagnosisWarning|R-hat above|[Cc]hains disagree|fewer than 400 effective|Traceback")


def test_no_output_of_the_gallery_has_a_failed_check():
    """The text of a page may explain a failed check; its output may not contain one."""
    outputs = re.compile(r'class="sphx-glr-script-out.*?</pre>', re.DOTALL)
    pages = sorted((folder_of("PPDINF_SITE") / "gallery").glob("*.html"))
    assert len(pages) >= 15
    found = {page.name: FAILED.findall(" ".join(outputs.findall(page.read_text(encoding="utf-8")))) for page in pages}
    assert {name: words for name, words in found.items() if words} == {}


def test_code_is_copied_without_prompts(site, page):
    page.goto(f"{site}/inference.html")
    page.locator("div.highlight").first.hover()
    page.locator("button.copybtn").first.click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("import numpy as np, pymc as pm, ppdinf as ppd")
    assert ">>>" not in copied


def test_dark_mode(site, page):
    page.goto(f"{site}/inference.html")
    background = "getComputedStyle(document.body).backgroundColor"
    seen = {}
    for mode in ("light", "dark"):
        page.evaluate(f"document.documentElement.dataset.theme = '{mode}'")
        page.wait_for_timeout(500)  # colors change gradually
        seen[mode] = page.evaluate(background)
    assert seen["light"] != seen["dark"]
    assert violations(page, *OF_THE_THEME) == []


def require_fit(page, address, width, *ignored):
    """Open a page in a window and require its images, its width and its accessibility."""
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(address)
    assert overflow(page) <= 0
    assert broken_images(page) == []
    assert violations(page, *ignored) == []


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["index", "inference", "how_to", "gallery/index", "api/generated/ppdinf.denoise"])
def test_pages_fit(site, page, name, width):
    require_fit(page, f"{site}/{name}.html", width, *OF_THE_THEME)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_report_of_the_demo(report, page, width):
    require_fit(page, report, width)
    assert page.locator("img").count() >= 3
    assert page.locator("table").count() >= 1


TRY = (Path(__file__).parents[1] / "docs/_static/try.html").as_uri()


def hidden_table(rng):
    """Return a random table with hidden cells as CSV, and its bounds by the package and by lines of the table alone."""
    counts = rng.poisson(3, rng.integers(2, 5, size=2))
    low, high = (np.where(rng.random(counts.shape) < 0.5, ends, counts) for ends in (0, np.maximum(counts, 6)))
    sums, texts, inv = [counts.sum(axis=1), counts.sum(axis=0)], ppd.ranges(low, high).tolist(), ppd.invariants
    kinds = [("exact", "exact"), ("exact", "none"), ("none", "exact"), ("partial", "exact")][rng.integers(4)]
    margins = [total if kind == "exact" else [">=0", *total[1:]] for total, kind in zip(sums, kinds, strict=True)]
    stated = [
        ppd.measured(inv.margin(dim), list(map(str, margin)), ppd.laws.Interval())
        for dim, margin, kind in zip("ab", margins, kinds, strict=True)
        if kind != "none"
    ]
    cells = ppd.measured(inv.margin("a", "b"), texts, ppd.laws.Interval())
    dims = {dim: [f"{dim}{k}" for k in range(n)] for dim, n in zip("ab", counts.shape, strict=True)}
    rows = [["", *dims["b"]], *([label, *row] for label, row in zip(dims["a"], texts, strict=True))]
    if kinds[0] != "none":
        rows = [[*row, end] for row, end in zip(rows, ["Total", *margins[0]], strict=True)]
    if kinds[1] != "none":
        rows.append(["Total", *margins[1], *([">=0"] if kinds[0] != "none" else [])])
    exact = ppd.identified_bounds(ppd.Measurements(dims, cells, *stated), progressbar=False)
    assert exact["exact"].all()
    for axis, kind in (0, kinds[0]), (1, kinds[1]):  # each cell is a total minus the bounds of the others
        if kind == "exact":
            rest = [end.sum(axis=1 - axis, keepdims=True) - end for end in (high, low)]
            total = np.expand_dims(sums[axis], 1 - axis)
            low, high = np.maximum(low, total - rest[0]), np.minimum(high, total - rest[1])
    csv = "\n".join(",".join(map(str, row)) for row in rows)
    return csv, exact[["lower", "upper"]].to_numpy(), np.stack([low, high], axis=2).reshape(-1, 2)


def test_bounds_without_installation_are_those_of_the_package(page):
    page.goto(TRY)
    rng = np.random.default_rng(1)
    wrong = 0
    for _ in range(20):
        csv, exact, by_line = hidden_table(rng)
        found = page.evaluate("csv => bounds(readTable(csv, [1, Infinity])).cells.flat()", csv)
        assert np.array_equal(found, exact), csv
        wrong += not np.array_equal(by_line, exact)
    assert wrong > 3  # bounds from single lines differ


def test_noise_without_installation_is_that_of_the_package(page):
    """Standard deviations are those of the plan; intervals those of an enumeration; noise sums to zero."""
    page.goto(TRY)
    total = ppd.invariants.total()
    for cells, epsilon in (2, 2), (7, 0.25), (3, 1):
        planned = (
            ppd.plan(lambda loss: ppd.GeneralizedLaplace(total, loss), {"c": cells}, [epsilon]).table["sd"].iloc[0]
        )
        sd = "law => Math.sqrt(law.one.reduce((s, p, k) => s + p * (k - law.W) ** 2, 0))"
        assert page.evaluate(f"([n, e]) => ({sd})(noiseLaw(n, e))", [cells, epsilon]) == pytest.approx(
            planned, rel=1e-9
        )
    draws = (
        "() => { const law = noiseLaw(3, 1); return Array.from({length: 20000}, () => drawNoise(law, Math.random)); }"
    )
    noise = np.array(page.evaluate(draws))
    assert not noise.sum(axis=1).any()
    assert np.abs(noise.std(axis=0) / planned - 1).max() < 0.06  # 6 standard errors: below 1e-8
    released = np.array([9, -2, 4])
    x = np.array([(i, j, 11 - i - j) for i in range(12) for j in range(12 - i)])
    weights = np.exp(-np.abs(x - released).sum(axis=1))
    marginals = [np.bincount(column, weights / weights.sum()).cumsum() for column in x.T]
    expected = [[int(np.searchsorted(cdf, q)) for q in (0.05, 0.95)] for cdf in marginals]
    assert page.evaluate("y => intervals(y, 1)", released.tolist()) == expected


@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_without_installation(page, width, tmp_path):
    require_fit(page, TRY, width)
    assert "Dauphin, 0-17." in page.inner_text("#verdict")
    (tmp_path / "table.csv").write_text("a,b,c,Total\nd,*,1,3\ne,<3,x1,4\n")
    page.set_input_files("#file", tmp_path / "table.csv")
    page.wait_for_function("document.querySelector('#verdict').textContent.includes('e, c: “x1” is not a count')")
    page.fill("#suppressed", "a,b,c,Total\nd,5,1,3\n")
    assert "the counts of “d” are at least 6, but its total is 3" in page.inner_text("#verdict")
    before = page.inner_html("#picture")
    page.select_option("#epsilon", "2")
    assert page.inner_html("#picture") != before
    assert "exp(2 × 2) = 54.60" in page.inner_text("#effect")


def test_a_page_with_faults_is_detected(page):
    """Without a text for its picture, with grey text on white, and wider than the window."""
    picture = "<img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='>"
    text = "<p style='color:#ccc;background:#fff;width:3000px'>text</p>"
    page.set_content(f"<html lang='en'><title>t</title><main><h1>t</h1>{picture}{text}</main></html>")
    assert overflow(page) > 0
    assert {"image-alt", "color-contrast"} <= {rule for rule, _ in violations(page)}
