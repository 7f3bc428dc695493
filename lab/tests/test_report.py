"""`weir report` in a browser: the page loads by itself, its plots are drawn, zoomed and read out. Needs Chromium, and no root."""

import subprocess

import pytest

from weirlab import chromium
from weirlab.chromium import Page
from weirlab.switch import REPOSITORY, weir_binary

RING = REPOSITORY / "scenarios" / "gfc-ring.toml"
RUNS = ["PFC, arrival", "GFC by stages, arrival"]

pytestmark = pytest.mark.skipif(
    not chromium.chromium(), reason="no Chromium is installed here (Debian: apt-get install chromium), and no CHROMIUM names one"
)


def weir(*arguments):
    finished = subprocess.run([weir_binary(), *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Pages of two runs of the ring: PFC, which deadlocks, and GFC."""
    folder = tmp_path_factory.mktemp("report")
    chosen = [argument for run in RUNS for argument in ("--run", run)]
    weir("testbed", "run", RING, "--backend", "sim", *chosen, "-o", folder / "ring")
    page = folder / "page.html"
    assert str(page) in weir("report", folder / "ring", "-o", page)
    return page


@pytest.fixture
def opened(report, tmp_path):
    """Opens the page, and draws all of it by scrolling through."""
    pages = []

    def open_page(**options):
        page = Page(tmp_path / f"profile{len(pages)}", **options)
        pages.append(page)
        page.open(report)
        page.evaluate("document.querySelectorAll('[data-chart]').forEach((place) => place.scrollIntoView())")
        for n in range(page.evaluate("document.querySelectorAll('[data-chart]').length")):
            page.evaluate(f"document.querySelectorAll('[data-chart]')[{n}].scrollIntoView({{ block: 'center' }})")
            page.until(f"document.querySelectorAll('[data-chart]')[{n}].querySelector('canvas') !== null")
        return page

    yield open_page
    for page in pages:
        page.__exit__()


#: How many different colors each plot's canvas has.
COLORS = """[...document.querySelectorAll('[data-chart] canvas')].map((canvas) => {
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  return new Set(new Uint32Array(data.buffer)).size;
})"""

#: Places in the first plot: the middle of the canvas' left half, of its right half, its height's middle.
PLACES = """(() => {
  const over = document.querySelector('[data-chart] .u-over');
  over.scrollIntoView({ block: 'center' });
  const { left, top, width, height } = over.getBoundingClientRect();
  return [left + width / 4, left + width * 3 / 4, top + height / 2];
})()"""

ZOOMS = "weirReport.plots.filter((plot) => plot.chart.x.is_time && plot.uplot).map(({ uplot }) => [uplot.scales.x.min, uplot.scales.x.max])"


@pytest.mark.parametrize("options", [{}, {"scheme": "dark"}, {"width": 390, "height": 844}], ids=["wide", "dark", "phone"])
def test_the_page_loads_alone_and_draws_everything(opened, report, options):
    page = opened(**options)
    colors = page.evaluate(COLORS)
    assert len(colors) >= 12 and min(colors) > 3, colors
    assert page.errors == []
    assert [url for url in page.requests if not url.startswith("data:")] == [report.as_uri()]
    width = options.get("width", 1280)
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing is to be scrolled sideways"
    assert "deadlock from" in page.evaluate("document.querySelector('.verdict').textContent")


def test_plots_are_read_out_and_zoomed_together(opened):
    page = opened()
    left, right, middle = page.evaluate(PLACES)
    page.mouse("mouseMoved", left, middle)
    page.until("document.querySelector('[data-chart] .u-legend .u-value').textContent.startsWith('7.')")
    page.drag((left, middle), (right, middle))
    zooms = page.evaluate(ZOOMS)
    assert len(zooms) > 8 and all(zoom == zooms[0] for zoom in zooms), zooms
    assert 7 < zooms[0][0] < 8 and 22 < zooms[0][1] < 23, "a half of 30 ms, in the middle"
    assert page.evaluate("Number(document.getElementById('zoom-from').value)") == pytest.approx(zooms[0][0], rel=1e-3)
    for count in (1, 2):
        page.mouse("mousePressed", left, middle, button="left", clickCount=count)
        page.mouse("mouseReleased", left, middle, button="left", clickCount=count)
    assert page.evaluate(ZOOMS)[0] == [0, 30]
    page.evaluate("document.getElementById('zoom-to').value = 3; document.querySelector('#zoom [type=submit]').click()")
    assert page.evaluate(ZOOMS)[-1] == [0, 3]
    assert page.errors == []


def test_a_finger_zooms(opened):
    page = opened(width=390, height=844)
    page.send("Emulation.setTouchEmulationEnabled", enabled=True)
    left, right, middle = page.evaluate(PLACES)
    page.touch((left, middle), (right, middle))
    page.until(f"{ZOOMS}[0][0] > 7 && {ZOOMS}[0][1] < 23")


def test_bars_are_read_out(opened):
    page = opened()
    x, y = page.evaluate("""(() => {
      const over = document.querySelector('#pauses .u-over');
      over.scrollIntoView({ block: 'center' });
      const { right, top } = over.getBoundingClientRect();
      return [right - 40, top + 9];
    })()""")
    page.mouse("mouseMoved", x, y)
    page.until("document.querySelector('#pauses .readout').textContent.includes('paused its peer from')")


def test_a_queue_is_chosen(opened):
    page = opened()
    drawn = "document.querySelector('#segments canvas').toDataURL()"
    before = page.evaluate(drawn)
    page.evaluate("const list = document.querySelector('#segments select'); list.selectedIndex = 1; list.dispatchEvent(new Event('change'))")
    page.until(f"{drawn} !== {before!r}")


def test_paper_has_all_plots_and_open_folds(opened):
    page = opened(scheme="dark")
    assert page.pdf().startswith(b"%PDF") and page.errors == []
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("document.querySelectorAll('details:not([open])').length") == 0
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)", "paper is light"
    assert min(page.evaluate(COLORS)) > 3
