"""The page's style: light and dark as the reader's system asks, from a phone to a wide screen.

It names nothing outside the page.
"""

from __future__ import annotations

CSS = """
:root { color-scheme: light dark; --paper: #fcfcfa; --card: #ffffff; --ink: #1c1d21;
  --soft: #5b5d66; --line: #e2e2dd; --one: #1766a6; --two: #b4470b; --across: #6d5a8c;
  --three: #2c7a3f; --four: #8a3ab0; --five: #7a6200; --six: #b0305f; }
@media (prefers-color-scheme: dark) { :root { --paper: #131417; --card: #1b1d21; --ink: #e9e9e6;
  --soft: #a3a6af; --line: #33363d; --one: #74b9f0; --two: #f3a35f; --across: #bfa9e6;
  --three: #7fd08f; --four: #d3a0f0; --five: #dcc35a; --six: #f291b4; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 82rem; padding: 1.25rem 1rem 3rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0 0 .25rem; }
h2 { font-size: 1.2rem; margin: 2.25rem 0 .75rem; }
h3 { font-size: 1rem; margin: 0; }
p { margin: .25rem 0 .75rem; max-width: 70ch; }
a { color: var(--one); }
a:focus-visible, summary:focus-visible, .scroll:focus-visible { outline: 3px solid var(--two);
  outline-offset: 2px; }
nav ul { display: flex; flex-wrap: wrap; gap: .25rem 1rem; list-style: none; padding: 0;
  margin: .5rem 0 0; }
nav a { display: inline-block; padding: .25rem 0; }
.soft { color: var(--soft); }
.tiles { display: grid; gap: .75rem; margin: 1rem 0 0;
  grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); }
.tiles div { background: var(--card); border: 1px solid var(--line); border-radius: .5rem;
  padding: .6rem .8rem; }
.tiles dt { color: var(--soft); font-size: .85rem; }
.tiles dd { margin: 0; font-size: 1.2rem; font-weight: 600; font-variant-numeric: tabular-nums; }
.tiles small { display: block; color: var(--soft); font-size: .8rem; font-weight: 400; }
.charts { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); }
figure { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: .5rem;
  padding: .8rem; min-width: 0; }
figcaption p { font-size: .875rem; color: var(--soft); margin: .15rem 0 .5rem; }
svg { display: block; width: 100%; height: auto; }
.tick { fill: var(--soft); font: 12px system-ui, sans-serif; }
.name { fill: var(--across); font: 12px system-ui, sans-serif; stroke: var(--card);
  stroke-width: 4px; paint-order: stroke; }
.grid { stroke: var(--line); stroke-width: 1; }
.axis { stroke: var(--soft); stroke-width: 1; fill: none; }
.across { stroke: var(--across); stroke-width: 1.3; stroke-dasharray: 6 4; }
.resumed { stroke: var(--soft); stroke-width: 1; stroke-dasharray: 2 3; }
.curve { fill: none; stroke-width: 1.6; stroke-linejoin: round; }
.curve-1 { stroke: var(--one); } .mark-1 { fill: var(--one); }
.curve-2 { stroke: var(--two); } .mark-2 { fill: var(--two); }
.curve-3 { stroke: var(--three); } .mark-3 { fill: var(--three); }
.curve-4 { stroke: var(--four); } .mark-4 { fill: var(--four); }
.curve-5 { stroke: var(--five); } .mark-5 { fill: var(--five); }
.curve-6 { stroke: var(--six); } .mark-6 { fill: var(--six); }
.band { opacity: .16; }
.key { display: flex; flex-wrap: wrap; gap: .15rem 1rem; list-style: none; margin: 0;
  padding: 0; font-size: .85rem; }
.key li::before { content: ""; display: inline-block; width: 1.4em; margin-right: .4em;
  vertical-align: .25em; border-top: 3px solid var(--one); }
.key .key-2::before { border-top-color: var(--two); }
.key .key-3::before { border-top-color: var(--three); }
.key .key-4::before { border-top-color: var(--four); }
.key .key-5::before { border-top-color: var(--five); }
.key .key-6::before { border-top-color: var(--six); }
.key .key-across::before { border-top: 2px dashed var(--across); }
.key .key-resumed::before { border-top: 2px dotted var(--soft); }
details { margin-top: .5rem; font-size: .9rem; }
summary { cursor: pointer; padding: .25rem 0; }
.scroll { overflow: auto; max-height: 26rem; border: 1px solid var(--line);
  border-radius: .35rem; }
.scroll + .scroll { margin-top: .5rem; }
table { border-collapse: collapse; width: 100%; background: var(--card); }
caption { text-align: left; padding: .4rem .6rem; color: var(--soft); font-size: .85rem; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem;
  border-top: 1px solid var(--line); }
th { font-weight: 600; }
thead th { overflow-wrap: normal; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums;
  white-space: nowrap; }
tbody th { font-weight: 400; color: var(--soft); white-space: nowrap; }
.samples { list-style: none; margin: 0; padding: 0; }
.samples li { display: grid; grid-template-columns: 5.5rem 1fr; gap: 0 1rem; padding: .6rem 0;
  border-top: 1px solid var(--line); }
.samples .step { color: var(--soft); font-variant-numeric: tabular-nums; }
.samples .said { margin: 0; white-space: pre-wrap; max-width: 80ch; }
.samples .said b { font-weight: 600; } .samples .said span { color: var(--one); }
.samples .next { margin: 0; font-size: .85rem; color: var(--soft); max-width: none; }
code, pre { font: .85rem/1.5 ui-monospace, monospace; }
pre { margin: 0; padding: .8rem; white-space: pre-wrap; background: var(--card); }
.events tbody th { width: 5.5rem; }
.facts { table-layout: fixed; }
.facts th { width: 14rem; white-space: normal; }
footer { margin-top: 2.5rem; color: var(--soft); font-size: .875rem; }
@media (max-width: 34rem) { .samples li { grid-template-columns: 1fr; } .facts th { width: 38%; } }
@media print { .scroll { max-height: none; } figure, .samples li { break-inside: avoid; } }
"""
