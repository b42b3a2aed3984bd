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

import pytest

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
    assert len(TERMS) == 21
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


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["index", "inference", "how_to", "gallery/index", "api/generated/ppdinf.denoise"])
def test_pages_fit(site, page, name, width):
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{site}/{name}.html")
    assert overflow(page) <= 0
    assert broken_images(page) == []
    assert violations(page, *OF_THE_THEME) == []


@pytest.mark.parametrize("width", WIDTHS)
def test_the_report_of_the_demo(report, page, width):
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(report)
    assert overflow(page) <= 0
    assert broken_images(page) == []
    assert page.locator("img").count() >= 3
    assert page.locator("table").count() >= 1
    assert violations(page) == []


def test_a_page_with_faults_is_detected(page):
    """Without a text for its picture, with grey text on white, and wider than the window."""
    picture = "<img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='>"
    text = "<p style='color:#ccc;background:#fff;width:3000px'>text</p>"
    page.set_content(f"<html lang='en'><title>t</title><main><h1>t</h1>{picture}{text}</main></html>")
    assert overflow(page) > 0
    assert {"image-alt", "color-contrast"} <= {rule for rule, _ in violations(page)}
