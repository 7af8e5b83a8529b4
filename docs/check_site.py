"""Looks at every page of the built site in a browser, on a desktop and a phone, light and dark.

    python docs/check_site.py [--pictures FOLDER] [--only PAGES]

Prints what is wrong: errors on the console, requests to other hosts, images that are missing, links
inside the site that lead nowhere, content wider than the page, a search that finds nothing.
Needs chromium and chromedriver.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import re
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urldefrag

from selenium import webdriver
from selenium.webdriver.chrome.service import Service


SITE = Path(__file__).parents[1] / "build" / "site"
SIZES = {"desktop": (1280, 900), "phone": (390, 844)}
SCHEMES = {"light": "default", "dark": "slate"}  # the theme's names
SEARCH = "unmatched_cost"

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --hide-scrollbars "
    "--disable-background-networking --disable-component-update --disable-sync"
).split()

# What a page shows of itself.
LOOK = """
const root = document.documentElement;
const wide = [...document.querySelectorAll("article *")].filter(x => {
  for (let y = x.parentElement; y && y.tagName != "ARTICLE"; y = y.parentElement) {
    if (getComputedStyle(y).overflowX != "visible") return false;
  }
  return x.getBoundingClientRect().right > innerWidth + 1;
});
return {
  scheme: document.body.dataset.mdColorScheme,
  tooWide: root.scrollWidth > innerWidth + 1 ? root.scrollWidth : 0,
  wide: wide.slice(0, 3).map(x => x.tagName + " " + x.textContent.slice(0, 40)),
  images: [...document.images].filter(x => !x.naturalWidth).map(x => x.src),
  links: [...document.querySelectorAll("a[href]")].map(x => x.href),
  ids: [...document.querySelectorAll("[id], a[name]")].map(x => x.id || x.name),
  requests: performance.getEntriesByType("resource").map(x => x.name),
};
"""
# The results of a search, once its worker has answered.
RESULTS = """
return [...document.querySelectorAll(".md-search-result__link")].map(x => x.href)
"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        del format, args


def serve() -> str:
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(SITE))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/"


def open_browser() -> webdriver.Chrome:
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if browser is None or driver is None:
        sys.exit("`chromium` and `chromedriver` must be on the PATH; Debian has packages of both.")
    options = webdriver.ChromeOptions()
    for flag in FLAGS:
        options.add_argument(flag)
    options.binary_location = browser
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=Service(driver))


def emulate(browser: webdriver.Chrome, base: str, size: str, scheme: str) -> None:
    width, height = SIZES[size]
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == "phone"}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.get("about:blank")
    storage = {"origin": base.rstrip("/"), "storageTypes": "local_storage"}
    browser.execute_cdp_cmd("Storage.clearDataForOrigin", storage)  # the site stores the scheme


def problems_of(browser: webdriver.Chrome, base: str, seen: dict) -> Iterator[str]:
    for entry in browser.get_log("browser"):  # pyright: ignore[reportAttributeAccessIssue]
        yield f"console: {entry['message']}"
    if seen["tooWide"]:
        yield f"is {seen['tooWide']} pixels wide"
    for x in seen["wide"]:
        yield f"runs off the page: {x}"
    for x in seen["images"]:
        yield f"missing image: {x}"
    for x in seen["requests"]:
        if not x.startswith((base, "data:", "blob:")):
            yield f"a request to another host: {x}"


def dead_links(base: str, links: dict[str, set[str]], ids: dict[str, set[str]]) -> Iterator[str]:
    """`links` and `ids` are those of each page."""
    for page, targets in links.items():
        for target in sorted(targets):
            address, anchor = urldefrag(target)
            if not address.startswith(base):
                continue
            name = unquote(address.removeprefix(base))
            file = SITE / name / "index.html" if name.endswith("/") or not name else SITE / name
            if not file.is_file():
                yield f"{page}: dead link {target}"
            elif anchor and name in ids and unquote(anchor) not in ids[name]:
                yield f"{page}: no such heading {target}"


def found_by_search(browser: webdriver.Chrome, base: str) -> list[str]:
    browser.get(f"{base}?q={SEARCH}")
    for _ in range(100):
        if results := browser.execute_script(RESULTS):
            return results
        time.sleep(0.1)
    return []


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pictures", type=Path, help="write a picture of each page there")
    parser.add_argument("--only", default="", help="a regular expression for the names of pages")
    args = parser.parse_args()
    pages = sorted(x.parent.relative_to(SITE).as_posix() for x in SITE.rglob("index.html"))
    pages = ["" if x == "." else f"{x}/" for x in pages if re.search(args.only, x)]
    base, browser = serve(), open_browser()
    wrong: list[str] = []
    links: dict[str, set[str]] = {}
    ids: dict[str, set[str]] = {}
    try:
        for size in SIZES:
            for scheme in SCHEMES:
                emulate(browser, base, size, scheme)
                for page in pages:
                    browser.get(base + page)
                    seen = browser.execute_script(LOOK)
                    links[page], ids[page] = {*seen["links"]}, {*seen["ids"]}
                    found = problems_of(browser, base, seen)
                    if seen["scheme"] != SCHEMES[scheme]:
                        wrong.append(f"{page or 'first page'}: is not {scheme}")
                    wrong += [f"{page or 'first page'} ({size}, {scheme}): {x}" for x in found]
                    if args.pictures:
                        args.pictures.mkdir(parents=True, exist_ok=True)
                        name = f"{page.strip('/').replace('/', '-') or 'index'}-{size}-{scheme}.png"
                        browser.save_screenshot(str(args.pictures / name))
        wrong += dead_links(base, links, ids)
        results = found_by_search(browser, base)
        if not any("solve_assignment" in x or "api/assignment" in x for x in results):
            wrong.append(f"the search for {SEARCH!r} finds {results}")
    finally:
        browser.quit()
    print(f"{len(pages)} pages, {len(wrong)} problems", *wrong, sep="\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
