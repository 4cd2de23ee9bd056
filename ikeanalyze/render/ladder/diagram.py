"""A ladder as SVG: time runs downwards, each transmission is an arrow between the lifelines of its hosts.

    0.000 ms   initiator ─── IKE_SA_INIT 0 request ──▶ responder    354 bytes
                                                                   SA KE(ECP-384) No ...

There are two layouts. *Even*: each message has the room that its text needs. *True*: arrows stand where their time is,
on an axis in milliseconds; their texts are moved apart where they would overlap, and a line ties them together. What
follows the set-up, seconds later as a rule, stands below it, not to scale. Without a message of the set-up, all stand
where their time is, below the line that says so.

Drawn for a page, one SVG has both: what changes has its attribute (`data-a`) in both forms (`data-v`, a bar between
them), and what belongs to one layout has the class `even` or `true`; a few lines of script switch. Its `width` is what
a phone shows, where two hosts stand without the texts beside them; the style sheet has the whole one. Arrows are
horizontal because a capture knows the time of a frame at one place only.

Bars on the lifelines say whose turn it is. As many lines as frames make an arrow, up to five; a retransmission is
dashed; what looks lost ends in a cross.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from math import ceil
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from ikeanalyze.render.core.figures.style import COLOURS, FONT, MONO
from ikeanalyze.render.core.figures.text_widths import MONO_WIDTH
from ikeanalyze.render.core.values import format_ms
from ikeanalyze.render.ladder.model import LOSSES, Ladder, LadderArrow, Lifeline, format_size
from ikeanalyze.render.ladder.text import wrap_texts


class LadderLayout(StrEnum):
    """How time runs down the diagram."""

    EVEN = "even"
    TRUE = "true"
    BOTH = "both"  # even, and can be switched


#: Widths of the whole, px: on a page, and in a file for two columns of a paper (where a pixel is 0.71 points).
PAGE_WIDTH: Final = 1120
FILE_WIDTH: Final = 720

_TOP: Final = 66  # of the first rung, below boxes with addresses of one line
_ADDRESS_LINE: Final = 12
_BETWEEN: Final = 6  # two boxes, at least
_ONE_LINE: Final = 20  # letters of an address that is never cut in two
_LINE: Final = 15  # from one line of text to the next
_SMALL: Final = 11  # sizes of letters
_NORMAL: Final = 12
_MOST_LINES: Final = 5  # of one arrow
_HEAD: Final = 8
_BESIDE: Final = ' class="beside"'  # for which a phone has no room
_BELOW: Final = ' class="below"'  # which a phone shows in place of some of that
#: Attributes of texts.
_END: Final = ' text-anchor="end"'
_MIDDLE: Final = ' text-anchor="middle"'
_MONO: Final = f' font-family="{MONO}"'
_BOLD: Final = ' font-weight="bold"'
_HALO: Final = f' stroke="{COLOURS["ground"]}" stroke-width="4" stroke-linejoin="round" paint-order="stroke"'


@dataclass(frozen=True, slots=True)
class _Places:
    """Where things are in one layout, px from the top."""

    arrows: Sequence[float]
    texts: Sequence[float]  # first line
    divider: float | None  # between the set-up and what follows; at the top if no message belongs to the set-up
    bottom: float
    scale: float = 0.0  # px per ns of the axis; 0: there is none
    axis_start: float = 0.0
    axis_end: float = 0.0


def draw_ladder(ladder: Ladder, layout: LadderLayout, *, width: int = PAGE_WIDTH) -> str:
    """The diagram in light colours; without a `viewBox` where it is for a page, so that it is cut and not shrunk."""
    return "".join(_Drawing(ladder, layout, width).parts())


class _Drawing:
    def __init__(self, ladder: Ladder, layout: LadderLayout, width: int) -> None:
        self.ladder, self.layout, self.width = ladder, layout, width
        wide = width >= PAGE_WIDTH
        longest = max((len(format_ms(rung.at_ns)) for rung in ladder.rungs), default=0)
        first = max(longest * _SMALL * MONO_WIDTH + 16, 68)
        # two hosts with addresses of IPv4 and times below a second fit on a phone, see style.css
        spans = {2: (228,), 3: (245, 205) if wide else (200, 165)}
        self.x = [first]
        for span in spans[len(ladder.hosts)]:
            self.x.append(self.x[-1] + span)
        self.addresses = [[host.address] for host in ladder.hosts]
        self.boxes = self._measure_boxes()
        if any(left + size + _BETWEEN > right for (left, size), (right, _) in pairwise(self.boxes)):
            self.addresses = [_split_address(host.address) for host in ladder.hosts]
            self.boxes = self._measure_boxes()
        self.top = _TOP + _ADDRESS_LINE * (max(map(len, self.addresses)) - 1)
        self.text_x = self.x[-1] + 40
        self.letters = max(int((width - self.text_x) / (_SMALL * MONO_WIDTH)), 12)
        self.payloads = [list(wrap_texts(rung.payloads, self.letters)) for rung in ladder.rungs]
        letters = int(self.letters * 1.05)  # those of text are narrower
        self.even_texts = [_wrap_parts(_list_notes(rung), letters) for rung in ladder.rungs]
        self.true_texts = [_wrap_parts(_list_texts_by_time(rung), letters) for rung in ladder.rungs]
        self.even, self.true = self._place_evenly(), self._place_by_time()

    def parts(self) -> Iterator[str]:
        """The SVG, piece by piece."""
        both = self.layout is LadderLayout.BOTH
        legend = list(self._list_legend_lines())
        heights = [places.bottom + 12 + _LINE * len(legend) for places in (self.even, self.true)]
        height = heights[1] if self.layout is LadderLayout.TRUE else heights[0]
        box = "" if both else f' viewBox="0 0 {self.width} {height:.0f}"'
        width = self.width
        if both and len(self.ladder.hosts) == 2:
            width = ceil(max(left + size for left, size in self.boxes)) + 1
        switch = f' data-a="height" data-v="{heights[0]:.0f}|{heights[1]:.0f}"' if both else ""
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="ladder of-{len(self.ladder.hosts)}" role="img" width="{width}" '
            f'height="{height:.0f}"{box}{switch} font-family="{FONT}" font-size="{_NORMAL}" '
            f"aria-label={quoteattr(f'Ladder diagram. {self.ladder.title}')}>"
        )
        yield from self._draw_axis()
        yield from self._draw_hosts()
        yield from self._draw_turns()
        yield from self._draw_divider()
        for index in range(len(self.ladder.rungs)):
            yield from self._draw_rung(index)
        for line, text in enumerate(legend):
            places = [_move_down(places.bottom + 4 + _LINE * (line + 0.5)) for places in (self.even, self.true)]
            text = _draw_text(self.text_x, 0, text, "muted", _SMALL)
            yield f"<g{_BESIDE}{self._make_attribute('transform', *places)}>{text}</g>"
        yield "</svg>"

    # Layouts

    def _measure_boxes(self) -> list[tuple[float, float]]:
        return list(map(_measure_box, self.ladder.hosts, self.addresses, self.x))

    def _measure_heights(self, *, true: bool) -> list[float]:
        """Room that each rung's text needs."""
        rows = zip(self.ladder.rungs, self.payloads, self.true_texts if true else self.even_texts, strict=True)
        space = 10 if true else 16
        return [_LINE * (len(texts) + len(inside) + bool(rung.loss)) + space for rung, inside, texts in rows]

    def _place_evenly(self) -> _Places:
        y, arrows, divider = float(self.top), [], None
        for index, (rung, height) in enumerate(zip(self.ladder.rungs, self._measure_heights(true=False), strict=True)):
            if self._starts_rest(index):
                divider = y + 4
                y += 34
            arrows.append(y + 12)
            y += max(height, 34 + 3 * (min(rung.frames, _MOST_LINES) - 1))
        return _Places(arrows, arrows, divider, y)

    def _place_by_time(self) -> _Places:
        rungs, heights = self.ladder.rungs, self._measure_heights(true=True)
        first_later = next((i for i in range(len(rungs)) if self._starts_rest(i)), len(rungs))
        inside = first_later or len(rungs)  # messages on the axis: all, if none belongs to the set-up
        start = self.top if first_later or not rungs else self.top + 30
        last_ns = max((rung.at_ns for rung in rungs[:inside]), default=0)
        room = min(max(sum(heights[:inside]), 240.0), 1400.0)
        scale = room / last_ns if last_ns > 0 else 0.0
        arrows = [start + 12 + rung.at_ns * scale for rung in rungs[:inside]]
        texts = _spread_out(arrows, heights[:inside], start + 12)
        y = max([start, *arrows, *(y_text + height for y_text, height in zip(texts, heights, strict=False))])
        axis_end = max(arrows, default=start)
        divider = self.top + 4.0 if start > self.top else None
        if inside < len(rungs):
            divider = y + 14
            y += 44
        for height in heights[inside:]:
            arrows.append(y + 12)
            texts.append(y + 12)
            y += max(height, 34)
        return _Places(arrows, texts, divider, y + 10, scale, start + 12, axis_end)

    def _starts_rest(self, index: int) -> bool:
        """Whether all of the set-up is above this rung, and something else begins; the first one if there is none."""
        rungs = self.ladder.rungs
        return (index == 0 or rungs[index - 1].set_up) and not any(rung.set_up for rung in rungs[index:])

    def _make_attribute(self, name: str, even: str, true: str) -> str:
        """An attribute, in one form or both."""
        if self.layout is not LadderLayout.BOTH:
            return f' {name}="{true if self.layout is LadderLayout.TRUE else even}"'
        if even == true:
            return f' {name}="{even}"'
        return f' {name}="{even}" data-a="{name}" data-v="{even}|{true}"'

    def _limit_to_layout(self, layout: LadderLayout, content: str) -> str:
        """What belongs to one layout alone."""
        if self.layout is LadderLayout.BOTH:
            return f'<g class="{layout}">{content}</g>'
        return content if self.layout is layout else ""

    # The drawing

    def _draw_axis(self) -> Iterator[str]:
        """The heading of the times and, in the true layout, ticks."""
        x = self.x[0] - 14
        yield _draw_text(x, self.top - 14, "ms", "muted", _SMALL, _END)
        scale = self.true.scale * 1e6  # px per ms
        if scale <= 0:
            return
        step = _choose_tick_step(44 / scale)
        lines = []
        for tick in range(int((self.true.axis_end - self.true.axis_start + 12) / scale / step) + 1):
            y = self.true.axis_start + tick * step * scale
            lines.append(
                f'<path d="M{self.x[0] - 9:.1f} {y:.1f}H{self.x[-1]:.1f}" stroke="{COLOURS["rule"]}" fill="none"/>'
            )
            lines.append(_draw_text(x, y + 4, f"{tick * step:,g}", "muted", _SMALL, _END))
        yield self._limit_to_layout(LadderLayout.TRUE, "".join(lines))

    def _draw_hosts(self) -> Iterator[str]:
        boxes = zip(self.ladder.hosts, self.addresses, self.x, self.boxes, strict=True)
        for host, address, x, (left, size) in boxes:
            colour = COLOURS[host.role]
            ends = [f"M{x:.1f} {self.top - 24}V{places.bottom - 8:.1f}" for places in (self.even, self.true)]
            yield f'<path{self._make_attribute("d", *ends)} stroke="{COLOURS["muted"]}" fill="none"/>'
            yield (
                f'<rect x="{left:.1f}" y="3" width="{size:.1f}" height="{self.top - 27}" rx="7" '
                f'fill="{COLOURS["ground"]}" stroke="{colour}" stroke-width="1.5"/>'
            )
            yield _draw_text(left + size / 2, 19, host.name, "ink", _NORMAL, _MIDDLE + _BOLD)
            for line, part in enumerate(address):
                y = 33 + _ADDRESS_LINE * line
                yield _draw_text(left + size / 2, y, part, "muted", _SMALL - 1, _MIDDLE + _MONO)

    def _draw_turns(self) -> Iterator[str]:
        for turn in self.ladder.turns:
            x = self.x[turn.host]
            colour = "waiting" if turn.waiting else self.ladder.hosts[turn.host].role
            boxes = [
                f"M{x - 4:.1f} {places.arrows[turn.first]:.1f}H{x + 4:.1f}V{places.arrows[turn.last]:.1f}H{x - 4:.1f}Z"
                for places in (self.even, self.true)
            ]
            yield (
                f'<path{self._make_attribute("d", *boxes)} fill="{COLOURS["ground"]}"/>'
                f'<path{self._make_attribute("d", *boxes)} fill="{COLOURS[colour]}" fill-opacity="0.45" stroke="{COLOURS[colour]}" '
                f'stroke-width="0.75"/>'
            )

    def _draw_divider(self) -> Iterator[str]:
        if self.even.divider is None or self.true.divider is None:
            return
        places = [_move_down(places.divider or 0) for places in (self.even, self.true)]
        ground, muted = COLOURS["ground"], COLOURS["muted"]
        gaps = "".join(
            f'<path d="M{x - 6:.1f} 4l12 -6M{x - 6:.1f} 10l12 -6" stroke="{muted}" fill="none"/>' for x in self.x
        )
        middle = (self.x[0] + self.x[1]) / 2
        label = _draw_text(middle, 8, "after the set-up", "muted", _SMALL, _MIDDLE + _HALO)
        scale = ""
        if any(rung.set_up for rung in self.ladder.rungs):
            scale = f"<g{_BESIDE}>{_draw_text(self.text_x, 8, 'not to scale', 'muted', _SMALL)}</g>"
            scale = self._limit_to_layout(LadderLayout.TRUE, scale)
        blank = "".join(f'<path d="M{x - 2:.1f} 3.5v1" stroke="{ground}" stroke-width="5"/>' for x in self.x)
        yield f"<g{self._make_attribute('transform', *places)}>{blank}{gaps}{label}{scale}</g>"

    def _draw_rung(self, index: int) -> Iterator[str]:
        rung, even, true = self.ladder.rungs[index], self.even, self.true
        places = [_move_down(y) for y in (even.arrows[index], true.arrows[index])]
        when = format_ms(rung.at_ns)
        yield f'<g class="rung" data-message="{rung.message}">'
        yield f"<title>{escape(f'{rung.label}: {when} ms, frame {rung.frame}')}</title>"
        yield f"<g{self._make_attribute('transform', *places)}>"
        yield self._limit_to_layout(LadderLayout.EVEN, _draw_text(self.x[0] - 14, 4, when, "ink", _SMALL, _END + _MONO))
        yield from self._draw_arrow(rung)
        yield "</g>"
        yield from self._draw_leader(index)
        places = [_move_down(y) for y in (even.texts[index], true.texts[index])]
        yield f"<g{_BESIDE}{self._make_attribute('transform', *places)}>"
        for layout, lines in ((LadderLayout.EVEN, self.even_texts[index]), (LadderLayout.TRUE, self.true_texts[index])):
            texts = (_draw_text(self.text_x, 4 + _LINE * i, text, "ink", _NORMAL) for i, text in enumerate(lines))
            yield self._limit_to_layout(layout, "".join(texts))
        below = [_move_down(_LINE * len(lines)) for lines in (self.even_texts[index], self.true_texts[index])]
        yield f"<g{self._make_attribute('transform', *below)}>"
        if rung.loss is not None:
            yield _draw_text(self.text_x, 4, LOSSES[rung.loss], "lost", _NORMAL)
        for line, text in enumerate(self.payloads[index], int(rung.loss is not None)):
            yield _draw_text(self.text_x, 4 + _LINE * line, text, "muted", _SMALL, _MONO)
        yield "</g></g></g>"

    def _draw_arrow(self, rung: LadderArrow) -> Iterator[str]:
        begin, end = self.x[rung.source], self.x[rung.target]
        way = 1 if end > begin else -1
        colour = COLOURS[self.ladder.hosts[rung.source].role]
        tip = end - 5 * way
        if rung.loss is not None:
            tip = begin + (end - begin) * 0.78
        lines = min(rung.frames, _MOST_LINES)
        offsets = [3 * (k - (lines - 1) / 2) for k in range(lines)]
        stem = "".join(f"M{begin + 5 * way:.1f} {y:.1f}H{tip - way * (_HEAD - 1):.1f}" for y in offsets)
        dashes = ' stroke-dasharray="6 4"' if rung.again else ""
        yield f'<path d="{stem}" stroke="{colour}" stroke-width="1.5" fill="none"{dashes}/>'
        if rung.loss is None:
            half = 4 + 1.5 * (lines - 1)
            yield f'<path d="M{tip:.1f} 0l{-way * _HEAD} {-half:.1f}v{2 * half:.1f}Z" fill="{colour}"/>'
        else:
            yield (
                f'<path d="M{tip - 5:.1f} -5l10 10m0 -10l-10 10" stroke="{COLOURS["lost"]}" stroke-width="2.2" '
                'fill="none"/>'
            )
        label = _draw_text((begin + end) / 2, min(offsets) - 5, rung.label, "ink", _NORMAL, _MIDDLE + _HALO)
        if self.layout is LadderLayout.BOTH and len(self.ladder.hosts) == 2:
            size = _draw_text((begin + end) / 2, max(offsets) + 13, format_size(rung), "muted", _SMALL, _MIDDLE + _HALO)
            label += f"<g{_BELOW}>{size}</g>"
        yield self._limit_to_layout(LadderLayout.EVEN, label)

    def _draw_leader(self, index: int) -> Iterator[str]:
        """A line from an arrow to its text, where the text had to be moved."""
        arrow, text = self.true.arrows[index], self.true.texts[index]
        x = self.x[-1]
        begin = max(self.x[self.ladder.rungs[index].source], self.x[self.ladder.rungs[index].target]) + 7
        line = (
            f'<path{_BESIDE} d="M{begin:.1f} {arrow:.1f}H{x + 10:.1f}L{x + 26:.1f} {text:.1f}H{x + 35:.1f}" '
            f'stroke="{COLOURS["waiting"]}" stroke-width="0.8" fill="none"/>'
        )
        yield self._limit_to_layout(LadderLayout.TRUE, line)

    def _list_legend_lines(self) -> Iterator[str]:
        """What the signs mean, as far as there are any."""
        rungs, turns = self.ladder.rungs, self.ladder.turns
        signs = [
            ("Bars: whose turn it is", any(not turn.waiting for turn in turns)),
            ("Grey: waiting to retransmit", any(turn.waiting for turn in turns)),
            ("Several lines: frames", any(rung.frames > 1 for rung in rungs)),
            ("Dashed: a retransmission", any(rung.again for rung in rungs)),
            ("Cross: looks lost", any(rung.loss for rung in rungs)),
        ]
        yield from wrap_texts([f"{text}." for text, present in signs if present], int(self.letters * 1.1))
        if self.ladder.left_out:
            yield f"{self.ladder.left_out:,} later messages are left out."


def _measure_box(host: Lifeline, address: Sequence[str], x: float) -> tuple[float, float]:
    """Left edge and width of the box above a lifeline."""
    size = max(len(host.name) * 7.2, max(map(len, address)) * (_SMALL - 1) * MONO_WIDTH) + 20
    return max(x - size / 2, 1), size


def _split_address(address: str) -> list[str]:
    """An address of IPv6 in two lines, at the colon next to its middle; a short one in one."""
    colons = [index + 1 for index, letter in enumerate(address) if letter == ":"]
    if len(address) <= _ONE_LINE or not colons:
        return [address]
    cut = min(colons, key=lambda index: abs(2 * index - len(address)))
    return [address[:cut], address[cut:]]


def _list_notes(rung: LadderArrow) -> list[str]:
    return [format_size(rung), *(part for note in rung.notes for part in note.split(", "))]


def _list_texts_by_time(rung: LadderArrow) -> list[str]:
    return [f"{format_ms(rung.at_ns)} ms", rung.label, *_list_notes(rung)]


def _wrap_parts(parts: Sequence[str], letters: int) -> list[str]:
    """Parts after one another, with commas between them."""
    return list(wrap_texts([*(f"{part}," for part in parts[:-1]), parts[-1]], letters))


def _spread_out(wanted: Sequence[float], heights: Sequence[float], top: float) -> list[float]:
    """Places as near as possible to those wanted, none above `top`, where nothing overlaps.

    Neighbours that would overlap become a block, which stands where its members want to be on average.
    """
    blocks: list[tuple[float, float, int]] = []  # sum of what the members want the block's top to be, height, members
    for want, height in zip(wanted, heights, strict=True):
        total, tall, members = want, height, 1
        while blocks and _get_block_top(blocks[-1], top) + blocks[-1][1] > _get_block_top((total, tall, members), top):
            before, room, earlier = blocks.pop()
            total, tall, members = before + total - members * room, room + tall, earlier + members
        blocks.append((total, tall, members))
    places: list[float] = []
    for block in blocks:
        y = _get_block_top(block, top)
        for height in heights[len(places) : len(places) + block[2]]:
            places.append(y)
            y += height
    return places


def _get_block_top(block: tuple[float, float, int], top: float) -> float:
    return max(block[0] / block[2], top)


def _choose_tick_step(minimum: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten that is not below `minimum`."""
    power = 10.0 ** (len(f"{int(minimum)}") - 1) if minimum >= 1 else 1e-6
    while True:
        for factor in (1, 2, 5):
            if factor * power >= minimum:
                return factor * power
        power *= 10


def _move_down(y: float) -> str:
    return f"translate(0 {y:.1f})"


def _draw_text(x: float, y: float, text: str, colour: str, size: int, attributes: str = "") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{COLOURS[colour]}"'
    return f"<text {place}{attributes}>{escape(text)}</text>"
