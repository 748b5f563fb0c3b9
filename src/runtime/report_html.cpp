#include "runtime/report_html.h"

#include <nlohmann/json.hpp>

namespace tektite {
namespace {

using Json = nlohmann::ordered_json;

/// Seconds that moving the bytes takes at least, and the arithmetic.
double memorySeconds(const KernelReport& k, const Target& t) {
  const Level& main = t.levels.back();
  const double all = main.bytesPerSecond * t.cores;
  const double rate = main.sharedBytesPerSecond > 0 ? main.sharedBytesPerSecond : all;
  return rate > 0 ? static_cast<double>(k.bytesRead + k.bytesWritten) / rate : 0;
}
double arithmeticSeconds(const KernelReport& k, const Target& t) {
  return k.flops / (2 * t.fmaPerCycle * t.lanes(4) * t.hertz * t.cores);
}

/// For each step: the steps that made what it reads.
std::vector<std::vector<int>> sourcesOf(const Program& p) {
  std::map<int, int> madeBy;  // by slot
  std::vector<std::vector<int>> out;
  for (const Step& step : p.steps) {
    std::vector<int> reads, writes;
    if (step.node < 0) {  // a copy
      reads = {step.slots[0]}, writes = {step.slots[1]};
    } else {
      const Node& node = p.graph.nodes[step.node];
      const auto slot = [&](Value v, std::vector<int>& into) {
        if (const auto at = p.slotOf.find(v); at != p.slotOf.end()) into.push_back(at->second);
      };
      for (const Value& v : node.operands) slot(v, reads);
      for (size_t r = 0; r < node.results.size(); ++r)
        slot({step.node, static_cast<int>(r)}, writes);
    }
    std::vector<int>& mine = out.emplace_back();
    for (int slot : reads)
      if (const auto at = madeBy.find(slot); at != madeBy.end()) mine.push_back(at->second);
    for (int slot : writes) madeBy[slot] = static_cast<int>(out.size()) - 1;
  }
  return out;
}

Json dataOf(const Program& program, const Report& report, const Target& target) {
  Json data = Json::parse(toJson(report));
  data["target"] = target.name;
  const std::vector<std::vector<int>> sources = sourcesOf(program);
  for (size_t i = 0; i < program.steps.size(); ++i) {
    Json& kernel = data["kernels"][i];
    kernel["sources"] = sources[i];
    kernel["memory_ms"] = memorySeconds(report.kernels[i], target) * 1e3;
    kernel["arithmetic_ms"] = arithmeticSeconds(report.kernels[i], target) * 1e3;
    if (program.steps[i].kernel < 0) continue;
    const KernelInfo& info = program.kernels[static_cast<size_t>(program.steps[i].kernel)];
    kernel["plan"] = info.plan;
    kernel["schedule"] = info.schedule;
    kernel["loops"] = info.text;
    kernel["code"] = info.artifact.text;
  }
  return data;
}

constexpr const char* kHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>tektite explain</title>
<style>
body{font:14px/1.4 system-ui,sans-serif;margin:0;display:grid;grid-template-columns:minmax(20rem,1fr) minmax(20rem,1fr);height:100vh;color:#222}
section{overflow:auto;padding:1rem}
#detail{border-left:1px solid #ccc}
h1{font-size:1.2rem;margin:0 0 .5rem}h2{font-size:1rem;margin:1rem 0 .3rem}
pre{background:#f6f6f4;padding:.5rem;overflow:auto;max-height:24rem;font-size:12px}
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.15rem .4rem;border-bottom:1px solid #eee;vertical-align:top}
tr.edge,g.kernel,g.edge,div.bar{cursor:pointer}tr.edge:hover,div.bar:hover{background:#eef}
.unfused{color:#a33}.fused{color:#275}
g.kernel rect{stroke:#555}g.kernel.chosen rect{stroke:#000;stroke-width:3}g.kernel text.name{font-weight:600}
path{fill:none}path.hit{stroke:transparent;stroke-width:9}g.edge.unfused path.line{stroke:#a33}g.edge.fused path.line{stroke:#275}
g.edge.chosen path.line,g.edge:hover path.line{stroke-width:3}
.track{background:#eee;height:.8rem;position:relative;margin:.1rem 0 .4rem}.track span{position:absolute;top:0;bottom:0;left:0}
.time{background:#9ab}.least{background:#468}
</style></head><body>
<section><h1>tektite explain</h1><div id="totals"></div><h2>The graph: a box a kernel, a line an edge (green: fused)</h2><svg id="graph"></svg>
<h2>Predicted time, and the least that memory and arithmetic allow (dark)</h2><div id="bars"></div></section>
<section id="detail"><div id="kernel">Choose a kernel, a bar or an edge.</div><h2>Edges</h2><input id="filter" placeholder="filter by name or verdict"><table id="edges"></table></section>
<script type="application/json" id="data">)";

constexpr const char* kTail = R"(</script>
<script>
const data = JSON.parse(document.getElementById('data').textContent), K = data.kernels;
const el = (tag, text, cls) => { const e = document.createElement(tag); if (text !== undefined) e.textContent = text; if (cls) e.className = cls; return e; };
const svg = (tag, attrs) => { const e = document.createElementNS('http://www.w3.org/2000/svg', tag); for (const a in attrs) e.setAttribute(a, attrs[a]); return e; };
const bytes = b => b >= 1e9 ? (b / 1e9).toFixed(2) + ' GB' : b >= 1e6 ? (b / 1e6).toFixed(2) + ' MB' : b >= 1e3 ? (b / 1e3).toFixed(1) + ' kB' : b + ' B';
const ms = t => t >= 1 ? t.toFixed(2) + ' ms' : (t * 1e3).toFixed(1) + ' us';
document.getElementById('totals').textContent = `${data.target}: ${data.launches} launches (${data.launches_unfused} unfused), ${bytes(data.bytes)} of main memory (${bytes(data.bytes_unfused)} unfused, at least ${bytes(data.bytes_minimum)}), peak of intermediates ${bytes(data.peak_bytes)}, predicted ${ms(data.predicted_ms)} (${ms(data.predicted_ms_unfused)} unfused)`;
const level = [], row = {}, W = 210, LINE = 16, GAP = 40, colour = i => `hsl(${i * 47 % 360} 60% 85%)`;
K.forEach((k, i) => { level[i] = Math.max(-1, ...k.sources.map(s => level[s])) + 1; k.column = row[level[i]] = (row[level[i]] ?? -1) + 1; k.nodes ??= []; k.height = 2.4 * LINE + LINE * k.nodes.length + 8; });
const tall = []; K.forEach((k, i) => tall[level[i]] = Math.max(tall[level[i]] ?? 0, k.height));
const top = [4]; tall.forEach((h, l) => top[l + 1] = top[l] + h + GAP);
K.forEach((k, i) => { k.x = 4 + k.column * (W + GAP); k.y = top[level[i]]; });
const graph = document.getElementById('graph'), boxes = [], lines = [], places = {};
graph.setAttribute('width', Math.max(0, ...K.map(k => k.x)) + W + GAP);
graph.setAttribute('height', top[top.length - 1]);
const write = (g, text, x, y, cls) => { const s = svg('text', { x, y, 'font-size': 12, class: cls }); s.textContent = text.length > 30 ? text.slice(0, 29) + '\u2026' : text; g.append(s); };
K.forEach((k, i) => { const g = svg('g', { class: 'kernel' }); boxes.push(g);
  g.append(svg('rect', { x: k.x, y: k.y, width: W, height: k.height, rx: 6, fill: colour(i) }));
  write(g, k.name, k.x + 8, k.y + LINE, 'name');
  write(g, `${k.nodes.length} nodes, ${bytes(k.bytes_read + k.bytes_written)}`, k.x + 8, k.y + 2 * LINE, 'facts');
  k.nodes.forEach((n, at) => { const y = k.y + 3.4 * LINE + LINE * at; write(g, n, k.x + 18, y, 'node'); (places[n] ??= []).push({ kernel: i, x: k.x, y: y - 4 }); });
  g.onclick = () => show(i); graph.append(g); });
const verdictOf = e => e.verdict === 'unfused' ? e.sentence : `${e.verdict}, ${bytes(e.numbers.bytes_saved)} and ${e.numbers.launches_saved} launches saved`;
const kindOf = e => e.verdict === 'unfused' ? 'unfused' : 'fused';
data.edges.forEach((e, n) => { const from = places[e.from] ?? [], to = places[e.to] ?? [];
  if (e.from === e.to || !from.length || !to.length) return;
  const pairs = from.flatMap(a => to.map(b => [a, b])), [a, b] = pairs.find(([a, b]) => a.kernel === b.kernel) ?? pairs[0];
  const d = a.kernel === b.kernel ? `M${a.x + 12} ${a.y} C${a.x - 2 - (b.y - a.y) / 8} ${a.y} ${a.x - 2 - (b.y - a.y) / 8} ${b.y} ${b.x + 12} ${b.y}`
    : `M${a.x + W} ${a.y} C${a.x + W + GAP} ${a.y} ${b.x + W + GAP} ${b.y} ${b.x + W} ${b.y}`;
  const g = svg('g', { class: 'edge ' + kindOf(e) }), title = svg('title', {}); title.textContent = `${e.from} \u2192 ${e.to}: ${verdictOf(e)}`;
  g.append(title, svg('path', { d, class: 'hit' }), svg('path', { d, class: 'line' })); g.onclick = () => showEdge(n); lines[n] = g; graph.append(g); });
function choose(box, line) {
  boxes.forEach((b, n) => b.setAttribute('class', n === box ? 'kernel chosen' : 'kernel'));
  lines.forEach((l, n) => l.setAttribute('class', `edge ${kindOf(data.edges[n])}${n === line ? ' chosen' : ''}`));
}
function showEdge(n) {
  choose(-1, n);
  const e = data.edges[n], box = document.getElementById('kernel'); box.replaceChildren(el('h1', `${e.from} \u2192 ${e.to}`), el('p', verdictOf(e), kindOf(e)));
  const facts = el('table'); box.append(facts);
  [['verdict', e.verdict], ['reason', e.reason], ...Object.entries(e.numbers)].forEach(([a, b]) => { if (b === null || b === '') return; const r = el('tr'); r.append(el('th', a), el('td', b)); facts.append(r); });
  [...new Set([e.from, e.to])].forEach(name => (places[name] ?? []).forEach(p => { const b = el('button', `${name}: ${K[p.kernel].name}`); b.onclick = () => show(p.kernel); box.append(b); }));
}
function show(i) {
  choose(i, -1);
  const k = K[i], box = document.getElementById('kernel'); box.replaceChildren(el('h1', k.name));
  const facts = el('table'); box.append(facts);
  [['nodes', (k.nodes || []).join(', ')], ['read, written', `${bytes(k.bytes_read)}, ${bytes(k.bytes_written)}`], ['scratch of a tile', bytes(k.scratch_bytes)], ['work', `${k.flops.toExponential(3)} flop, ${k.recompute.toFixed(2)} times recomputed`],
   ['vector registers', `${k.registers}; of its widest part alone ${k.registers_parts}`], ['predicted', `${ms(k.predicted_ms)}; memory at least ${ms(k.memory_ms)}, arithmetic ${ms(k.arithmetic_ms)}`]].forEach(([a, b]) => { const r = el('tr'); r.append(el('th', a), el('td', b)); facts.append(r); });
  [['plan', k.plan], ['schedule', k.schedule], ['loops', k.loops], ['code', k.code]].forEach(([title, text]) => { if (!text) return; const d = el('details'); if (title === 'loops') d.open = true; d.append(el('summary', title), el('pre', text)); box.append(d); });
}
const most = Math.max(...K.map(k => k.predicted_ms), 1e-9), bars = document.getElementById('bars');
K.forEach((k, i) => { const b = el('div', `${k.name} ${ms(k.predicted_ms)}`, 'bar'), t = el('div', '', 'track'), p = el('span', '', 'time'), m = el('span', '', 'least');
  p.style.width = 100 * k.predicted_ms / most + '%'; m.style.width = 100 * Math.min(Math.max(k.memory_ms, k.arithmetic_ms), k.predicted_ms) / most + '%';
  t.append(p, m); b.append(t); b.onclick = () => show(i); bars.append(b); });
const table = document.getElementById('edges'), filter = document.getElementById('filter');
function list() { table.replaceChildren(); const want = filter.value.toLowerCase();
  data.edges.forEach((e, n) => { const text = `${e.from} \u2192 ${e.to}`, verdict = verdictOf(e);
    if (want && !(text + verdict).toLowerCase().includes(want)) return;
    const r = el('tr', undefined, 'edge'); r.append(el('td', text), el('td', verdict, kindOf(e)));
    r.onclick = () => showEdge(n); table.append(r); }); }
filter.oninput = list; list();
</script></body></html>
)";

}  // namespace

std::string toHtml(const Program& program, const Report& report, const Target& target) {
  std::string data = dataOf(program, report, target).dump();
  for (size_t at = data.find("</"); at != std::string::npos; at = data.find("</", at + 3))
    data.replace(at, 2, "<\\/");  // a name must not end the element
  return kHead + data + kTail;
}

}  // namespace tektite
