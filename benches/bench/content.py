"""Bodies of web resources, made from a seed and a path alone.

Two visits to one path always see the same bytes. The mix follows real pages: images,
fonts and media that no compressor shrinks further, and scripts, styles, JSON and
prose that shrink three- to fivefold.
"""

from __future__ import annotations

import itertools
import json
import random
import struct
from functools import lru_cache

_SYLLABLES = [a + b for a in "b c d f g h l m n p r s t v st tr pl".split() for b in "a e i o u ai er on".split()]
_JPEG_LUMA = (
    "16 11 10 16 24 40 51 61 12 12 14 19 26 58 60 55 14 13 16 24 40 57 69 56 14 17 22 29 51 87 80 62 "
    "18 22 37 56 68 109 103 77 24 35 55 64 81 104 113 92 49 64 78 87 103 121 120 101 72 92 95 98 112 100 103 99"
)


def source(seed: int, path: str) -> random.Random:
    return random.Random(f"{seed}:{path}")


@lru_cache(maxsize=4)
def _vocabulary(seed: int) -> tuple[list[str], list[float]]:
    rng = source(seed, "vocabulary")
    words = ["".join(rng.choices(_SYLLABLES, k=rng.choice((1, 2, 2, 3, 3, 4)))) for _ in range(6000)]
    weights = itertools.accumulate(1 / (rank + 8) for rank in range(len(words)))
    return words, list(weights)


def words(rng: random.Random, seed: int, count: int) -> list[str]:
    vocabulary, weights = _vocabulary(seed)
    return rng.choices(vocabulary, cum_weights=weights, k=count)


def size(rng: random.Random, mean: int, spread: float = 0.8) -> int:
    """A log-normal size with the given mean, cut at ten times the mean."""
    drawn = rng.lognormvariate(0, spread) / 2.718281828 ** (spread * spread / 2)
    return max(200, int(mean * min(drawn, 10)))


def prose(rng: random.Random, seed: int, length: int) -> str:
    out = []
    left = length
    while left > 0:
        sentence = " ".join(words(rng, seed, rng.randint(6, 18))).capitalize() + ". "
        out.append(sentence)
        left -= len(sentence)
    return "".join(out)


def jpeg(rng: random.Random, length: int) -> bytes:
    """A JPEG header with real tables, then entropy-coded noise: decoders accept it."""
    tables = b"\xff\xdb\x00\x43\x00" + bytes(int(n) for n in _JPEG_LUMA.split())
    frame = b"\xff\xc0" + struct.pack("!HBHHB", 11, 8, 480, 640, 1) + b"\x01\x11\x00"
    codes = bytes([0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0]) + bytes(range(12))
    huffman = b"".join(
        b"\xff\xc4" + struct.pack("!HB", 3 + len(codes), kind) + codes for kind in (0x00, 0x10))
    scan = b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00"
    head = b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00" + tables + frame + huffman + scan
    body = rng.randbytes(max(0, length - len(head) - 2)).replace(b"\xff", b"\xfe")
    return head + body + b"\xff\xd9"


def opaque(rng: random.Random, magic: bytes, length: int) -> bytes:
    """What a WOFF2 font, a video segment or a WebP looks like to a compressor."""
    return magic + rng.randbytes(length)


def script(rng: random.Random, seed: int, name: str, length: int) -> str:
    """Valid JavaScript in the style of a bundler's output."""
    out = [f"(self.__bundles=self.__bundles||{{}})[{json.dumps(name)}]={{"]
    left = length
    number = 0
    while left > 0:
        a, b, c, d, e, f = words(rng, seed, 6)
        k = rng.randint(2, 9999)
        body = rng.choice((
            f"function(t,n){{var r=n(t.{a}Id||{k}),o=t.{b};return o&&o.{c}?"
            f"r.concat(o.{c}.map(function(e){{return e.{d}}})):{{{e}:r,{f}:!0}}}}",
            f'function(e){{"use strict";const {a}="{b}-{c}",n=e.{d}||[];'
            f'for(let r=0;r<n.length;r++)if(n[r].{e}==={a})return n[r].{f}+{k};return null}}',
            f'function(e,t){{switch(e.type){{case"{a}/{b}":'
            f'return Object.assign({{}},t,{{{c}:e.payload,{d}:{k}}});case"{a}/{e}":return t.{f};default:return t}}}}',
            f'function(e){{return\'<div class="{a}-{b}" data-{c}="{k}"><span>\''
            f'+(e.{d}||"{" ".join(words(rng, seed, rng.randint(3, 14)))}")+"</span></div>"}}',
            f"async function(e){{if(!e.{b})return null;const t=await fetch(`/api/{a}/${{e.{b}}}?{c}={k}`);"
            f"if(!t.ok)throw new Error(\"{d} {e}\");return(await t.json()).{f}}}",
        ))
        item = f"{number}:{body},\n"
        out.append(item)
        left -= len(item)
        number += 1
    # Calling a part of the functions makes V8 compile them, which its code cache then keeps.
    out.append(f"}};(m=>{{for(let i=0;i<{number};i+=2)try{{const r=m[i]({{type:'x'}},x=>[x]);r&&r.catch&&r.catch(()=>0)}}catch(e){{}}}})")
    out.append(f"(self.__bundles[{json.dumps(name)}]);\n")
    return "".join(out)


def style(rng: random.Random, seed: int, length: int) -> str:
    out = []
    left = length
    while left > 0:
        a, b, c = words(rng, seed, 3)
        rule = (f".{a}-{b}>.{c}{{margin:{rng.randint(0, 48)}px {rng.randint(0, 48)}px;"
                f"color:#{rng.randrange(1 << 24):06x};display:{rng.choice(('flex', 'grid', 'block'))}}}\n")
        out.append(rule)
        left -= len(rule)
    return "".join(out)


def records(rng: random.Random, seed: int, length: int) -> str:
    rows = []
    left = length
    while left > 0:
        a, b, c = words(rng, seed, 3)
        row = {"id": rng.randbytes(8).hex(), "kind": a, "owner": f"{b}@{c}.example", "price": rng.randint(1, 99999) / 100,
               "updated": 1_700_000_000 + rng.randrange(10_000_000), "text": " ".join(words(rng, seed, rng.randint(5, 40)))}
        rows.append(row)
        left -= len(json.dumps(row))
    return json.dumps(rows)
