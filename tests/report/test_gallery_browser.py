"""The gallery in a real browser: pictures load, filters filter, the theme turns, a phone does not scroll sideways."""

from __future__ import annotations

import functools
import shutil
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait
from tiny_project import TinyProject

from tangentbench.report.gallery import write_gallery

CHROMIUM = shutil.which("chromium")
CHROMEDRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PHONE: dict[str, Any] = {"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True}
DESKTOP: dict[str, Any] = {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False}
ALL_CARDS = {"alpha_fig1", "beta_constants"}

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None or CHROMEDRIVER is None,
        reason="needs Debian's chromium and chromium-driver: apt-get install chromium chromium-driver",
    ),
]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    project = TinyProject.create(tmp_path_factory.mktemp("gallery") / "project")
    project.build()
    return write_gallery(project.catalogue, project.paths, "quick").as_uri()


@pytest.fixture(scope="module")
def served(address: str) -> Iterator[str]:
    """The page from a server: of what pages in files store, Chromium 156 forgets one write in ten."""
    page = Path(address.removeprefix("file://"))
    handler = functools.partial(QuietHandler, directory=str(page.parent))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/{page.name}"
        server.shutdown()


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing: a test's output is for failures."""


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    profile: Path = tmp_path_factory.mktemp("profile")
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(str(CHROMEDRIVER)))
    yield driver
    driver.quit()


@pytest.fixture
def page(chromium: webdriver.Chrome, address: str) -> Iterator[webdriver.Chrome]:
    """The page freshly opened at desktop width; a test fails if it left an error in the console."""
    size(chromium, DESKTOP)
    open_page(chromium, address)
    chromium.execute_script("try { localStorage.clear() } catch {}")
    open_page(chromium, address)
    chromium.get_log("browser")  # type: ignore[no-untyped-call]
    yield chromium
    assert [entry for entry in chromium.get_log("browser") if entry["level"] == "SEVERE"] == []  # type: ignore[no-untyped-call]


def open_page(driver: webdriver.Chrome, address: str) -> None:
    driver.get("about:blank")
    driver.get(address)


def size(driver: webdriver.Chrome, metrics: dict[str, Any]) -> None:
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def shown(driver: webdriver.Chrome) -> set[str]:
    cards = driver.find_elements(By.CSS_SELECTOR, "article")
    return {str(card.get_attribute("id")) for card in cards if card.is_displayed()}


def chip(driver: webdriver.Chrome, group: str, value: str) -> webdriver.remote.webelement.WebElement:
    return driver.find_element(By.CSS_SELECTOR, f'[data-group="{group}"][data-value="{value}"]')


def background(driver: webdriver.Chrome) -> str:
    return str(driver.execute_script("return getComputedStyle(document.body).backgroundColor"))


def prefer(driver: webdriver.Chrome, scheme: str) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def test_every_picture_loads(page: webdriver.Chrome) -> None:
    pictures = page.find_elements(By.TAG_NAME, "img")
    assert pictures
    for picture in pictures:
        page.execute_script("arguments[0].scrollIntoView()", picture)
        WebDriverWait(page, 10).until(lambda driver, one=picture: one.get_property("naturalWidth") > 0)  # type: ignore[misc]


def test_study_filter_and_its_address(page: webdriver.Chrome) -> None:
    assert shown(page) == ALL_CARDS
    chip(page, "study", "beta").click()
    assert shown(page) == {"beta_constants"}
    assert page.current_url.endswith("#study=beta")
    assert not page.find_element(By.ID, "study-alpha").is_displayed()
    assert page.find_element(By.ID, "shown").text == "1 of 2 artifacts"
    chip(page, "study", "alpha").click()
    assert shown(page) == ALL_CARDS
    page.find_element(By.ID, "reset").click()
    assert shown(page) == ALL_CARDS
    assert "#" not in page.current_url


@pytest.mark.parametrize(
    ("state", "cards"),
    [
        ("held", {"alpha_fig1"}),
        ("failed", {"alpha_fig1"}),
        ("not-testable", {"alpha_fig1"}),
        ("not-run", {"beta_constants"}),
    ],
)
def test_state_filter(page: webdriver.Chrome, state: str, cards: set[str]) -> None:
    chip(page, "state", state).click()
    assert shown(page) == cards
    assert chip(page, "state", state).get_attribute("aria-pressed") == "true"


def test_groups_narrow_each_other(page: webdriver.Chrome) -> None:
    chip(page, "state", "not-run").click()
    chip(page, "kind", "theory").click()
    assert shown(page) == {"beta_constants"}
    chip(page, "study", "alpha").click()
    assert shown(page) == set()
    assert page.find_element(By.ID, "nothing").is_displayed()


def test_filtered_view_can_be_linked(page: webdriver.Chrome, address: str) -> None:
    open_page(page, f"{address}#state=not-run&kind=theory,figure")
    assert shown(page) == {"beta_constants"}
    open_page(page, f"{address}#q=zanzibar")
    assert shown(page) == {"alpha_fig1"}
    assert page.find_element(By.ID, "search").get_property("value") == "zanzibar"


def test_a_link_to_a_hidden_card_shows_it(page: webdriver.Chrome) -> None:
    chip(page, "study", "beta").click()
    page.execute_script("location.hash = 'alpha_fig1'")
    WebDriverWait(page, 5).until(lambda driver: shown(driver) == ALL_CARDS)


def test_search_wants_every_word(page: webdriver.Chrome) -> None:
    search = page.find_element(By.ID, "search")
    search.send_keys("ZANZIBAR effect")
    assert shown(page) == {"alpha_fig1"}
    search.send_keys(" nowhere")
    assert shown(page) == set()
    page.find_element(By.ID, "reset").click()
    assert shown(page) == ALL_CARDS


def test_filters_work_from_the_keyboard(page: webdriver.Chrome) -> None:
    page.find_element(By.ID, "search").click()
    page.switch_to.active_element.send_keys(Keys.TAB)
    assert page.switch_to.active_element.get_attribute("data-value") == "alpha"
    page.switch_to.active_element.send_keys(Keys.SPACE)
    assert shown(page) == {"alpha_fig1"}


def test_a_tile_of_the_header_filters(page: webdriver.Chrome) -> None:
    page.find_element(By.CSS_SELECTOR, "a.tile.failed").click()
    WebDriverWait(page, 5).until(lambda driver: shown(driver) == {"alpha_fig1"})


def test_copy_puts_the_command_where_it_can_be_pasted(page: webdriver.Chrome) -> None:
    button = page.find_element(By.CSS_SELECTOR, "#alpha_fig1 .copy")
    button.click()
    WebDriverWait(page, 5).until(lambda driver: button.text == "Copied")
    search = page.find_element(By.ID, "search")
    search.send_keys(Keys.CONTROL, "v")
    assert search.get_property("value") == "snakemake --cores 2 alpha_fig1"


def has_background(page: webdriver.Chrome, colour: str) -> None:
    """Within a few seconds: on a busy machine Chromium takes its time to restyle the page."""
    WebDriverWait(page, 10).until(lambda _: background(page) == colour, f"the background is not {colour}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_theme_follows_the_system_then_the_button(page: webdriver.Chrome, served: str, scheme: str) -> None:
    open_page(page, served)
    page.execute_script("localStorage.clear()")
    open_page(page, served)
    colours = {"light": "rgb(247, 245, 240)", "dark": "rgb(20, 22, 26)"}
    other = "dark" if scheme == "light" else "light"
    prefer(page, scheme)
    has_background(page, colours[scheme])
    page.find_element(By.ID, "theme").click()
    has_background(page, colours[other])
    assert page.find_element(By.ID, "theme").get_attribute("aria-label") == f"Switch to the {scheme} theme"
    open_page(page, served)
    has_background(page, colours[other])


def test_pictures_lie_on_white_in_the_dark(page: webdriver.Chrome) -> None:
    prefer(page, "dark")
    mat = page.find_element(By.CSS_SELECTOR, ".mat")
    assert mat.value_of_css_property("background-color") == "rgba(255, 255, 255, 1)"
    prefer(page, "light")


def test_phone_never_scrolls_sideways(page: webdriver.Chrome, address: str) -> None:
    size(page, PHONE)
    open_page(page, address)
    page.execute_script("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    page.find_element(By.ID, "panel-toggle").click()
    assert chip(page, "study", "beta").is_displayed()
    assert page.execute_script("return innerWidth") == PHONE["width"]
    assert page.execute_script("return document.documentElement.scrollWidth <= innerWidth")


def test_text_has_enough_contrast(page: webdriver.Chrome) -> None:
    """WCAG AA: 4.5 to 1 for every text, in both themes."""
    for scheme in ("light", "dark"):
        prefer(page, scheme)
        poor = page.execute_script(CONTRAST_BELOW, 4.5)
        assert poor == [], f"{scheme}: {poor}"
    prefer(page, "light")


CONTRAST_BELOW = """
const least = arguments[0];
const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
const luminance = ([r, g, b]) => {
  const linear = [r, g, b].map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
};
const behind = (element) => {
  for (let one = element; one; one = one.parentElement) {
    const colour = channels(getComputedStyle(one).backgroundColor);
    if (colour.length === 3 || colour[3] === 1) return colour;
  }
  return [255, 255, 255];
};
const poor = [];
for (const element of document.querySelectorAll("body *")) {
  const text = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
  if (!text || !element.checkVisibility()) continue;
  const [a, b] = [channels(getComputedStyle(element).color), behind(element)].map(luminance).sort((x, y) => y - x);
  const ratio = (a + 0.05) / (b + 0.05);
  if (ratio < least) poor.push([element.className || element.tagName, ratio.toFixed(2)]);
}
return poor;
"""
