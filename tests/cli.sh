#!/usr/bin/env bash
# The command line from outside: cli.sh TEKTITE. Each line of tests/errors/cli.txt that begins with `$` is a use (`tektite` and a
# folder of scratch files are put in), the next one its exit code and its one line of message.
set -uo pipefail
tektite=$(realpath "$1")
tests=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TEKTITE_CACHE=$folder/cache
cd "$folder"
failures=0

fail() { printf '%s\n' "$*" >&2; failures=$((failures + 1)); }

cat >good.tk <<'G'
graph (x: f32[4x8], b: f32[1x8]) {
  %2 = map (x, b) { $0 + $1 } : f32[4x8]
  %3 = map (%2) { max($0, 0) } : f32[4x8]
  %4 = reduce sum %3 axes=[1] : f32[4x1]
  return %3, %4
}
G
cat >dims.tk <<'G'
graph (dim n: 0..64, x: f32[n x 8]) {
  %1 = map (x) { exp($0) } : f32[n x 8]
  return %1
}
G
cat >loop.tk <<'G'
graph (x: f32[3]) {
  %1 = const 5 : i64
  %2 = const 1 : bool
  %3 = loop %1, %2 [x] [] body (i: i64, on: bool, s: f32[3]) {
    %3 = map (s) { $0 + $0 } : f32[3]
    return on, %3
  } : f32[3]
  return %3
}
G
printf 'graph (x: f32[4x8]) {\n  return y\n}\n' >bad.tk
printf 'not a model' >bad.onnx
mkdir empty

# ---- messages
while IFS= read -r line; do
  case $line in
    '$ '*) use=${line#\$ } ;;
    [0-9]*)
      found=$(eval "${use/#tektite/\"$tektite\"}" 2>&1 >/dev/null); code=$?
      [ "$code: $found" = "$line" ] || fail "$use"$'\n'"  found    $code: $found"$'\n'"  expected $line" ;;
  esac
done <"$tests/errors/cli.txt"

# ---- uses: NAME EXPECTED-CODE COMMAND...
expect() {
  local code=$1
  shift
  "$@" >out 2>err
  local found=$?
  [ $found = "$code" ] || fail "$*"$'\n'"  exit code $found, expected $code: $(cat err)"
}
json() { python3 -c "import json, sys; d = json.load(open('out')); assert $1, sys.argv; " || fail "json: $1 does not hold of $(head -c 600 out)"; }

expect 0 "$tektite" help
expect 0 "$tektite" machine --json; json "d['levels'][-1]['name'] == 'main'"
expect 0 "$tektite" ops --json; json "len(d) > 40"
expect 0 "$tektite" ops --markdown
expect 0 "$tektite" run good.tk -o outputs --json; json "d['ok'] and d['outputs'][0]['shape'] == [4, 8]"
expect 0 "$tektite" run good.tk --expect outputs --json; json "d['ok'] and d['outputs'][0]['max_abs_err'] == 0"
expect 0 "$tektite" run good.tk --expect outputs --target interpret --unfused
expect 0 "$tektite" run loop.tk --allow-fallback -o loops
grep -q "^fallback: node '%3': a loop that the graph interpreter executes, 3 scalar steps each time round$" err || fail "no fallback said: $(cat err)"
expect 0 "$tektite" run loop.tk --target interpret -o loops
for n in 1 3; do  # inputs and outputs of two extents
  "$tektite" run dims.tk --dim n=$n -o in$n >out && mv in$n/output_0.npy in$n/input_0.npy && cp -r in$n set$n
  "$tektite" run dims.tk --inputs in$n -o set$n >out
done
expect 0 "$tektite" run dims.tk --inputs set1,set3,set1 --expect set1,set3,set1 --json; json "d['ok'] and [r['compilations'] for r in d['runs']] == [1, 2, 2]"
expect 1 "$tektite" run dims.tk --inputs set1,set3 --expect set1,set1
expect 1 "$tektite" run good.tk --seed 2 --expect outputs --json; json "not d['ok']"
mkdir swapped && cp outputs/output_0.npy swapped/output_1.npy && cp outputs/output_1.npy swapped/output_0.npy
expect 1 "$tektite" run good.tk --expect swapped
expect 0 "$tektite" run good.tk --threads 1 --no-cache
expect 0 "$tektite" run dims.tk --dim n=3 --json; json "d['outputs'][0]['shape'] == [3, 8]"
expect 0 "$tektite" run dims.tk --json; json "d['outputs'][0]['shape'] == [1, 8]"
expect 0 "$tektite" run dims.tk --dim n=0 --json; json "d['outputs'][0]['shape'] == [0, 8]"
expect 0 "$tektite" explain good.tk --json
json "d['launches'] == 1 and d['launches_unfused'] >= 1 and d['bytes'] >= d['bytes_minimum'] and d['peak_bytes'] == 0 and d['kernels'][0]['flops'] >= 0"
expect 0 "$tektite" explain good.tk --edges
expect 0 "$tektite" explain good.tk --target=npu:neuroncore2 --json --trace trace.json
json "d['simulated']['launches'] == 1 and d['simulated']['bytes_read'] == 160 and d['simulated']['busy']['load'] > 0"
python3 -c "import json; assert json.load(open('trace.json'))['traceEvents']" || fail "explain --trace: $(head -c 300 trace.json)"
expect 2 "$tektite" explain "$tests/models/transformer/model.onnx" --target=npu:ascend910b --set ub.bytes=32  # one block: too small for an operand and a result
grep -q "K6: kernel .*: [0-9]* bytes in ub, which has 32$" err || fail "a kernel that doesn't fit is not refused: $(cat err)"
expect 0 "$tektite" run good.tk --target=npu:ethos-u65-512 --expect outputs --json
json "d['ok'] and d['simulated']['launches'] == 1"
expect 0 "$tektite" verify good.tk --target=npu:ascend910b --json; json "d['ok']"
expect 0 "$tektite" explain good.tk --target=npu:gemmini --sweep launch-us=1,5,10 --json
json "[r['launches'] for r in d] == [1, 1, 1] and d[0]['ms'] < d[2]['ms']"
expect 0 "$tektite" bench good.tk --target=npu:gemmini --vs unfused --json; json "d['simulated']['cycles'] > 0 and d['ratio'] == d['simulated_unfused']['cycles'] / d['simulated']['cycles'] and 'median_ms' not in d"
expect 0 "$tektite" explain good.tk --target=gpu-class --sweep shared.bytes=16384,65536 --json
expect 0 "$tektite" verify good.tk --target=gpu-class  # in the kernel interpreter
printf 'graph (x: f32[8]) {\n %%1 = map (x) { $0 * 8 } : f32[8]\n %%2 = map (%%1) { i32($0) } : i32[8]\n return %%2\n}\n' > cast.tk
expect 0 "$tektite" run cast.tk --target=gpu-class --unfused  # one kernel's result may not take another type's memory
expect 0 "$tektite" explain good.tk --html page.html
python3 - <<'P' || fail "explain --html: $(head -c 600 page.html)"
import html.parser, json
class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(); self.data, self.inside, self.tags, self.links = "", False, [], []
    def handle_starttag(self, tag, attributes):
        self.inside = ("id", "data") in attributes; self.tags.append(tag); self.links += [v for k, v in attributes if k in ("src", "href")]
    def handle_data(self, text):
        if self.inside: self.data += text
    def handle_endtag(self, tag): self.inside = False
page = Page(); page.feed(open("page.html").read())
data = json.loads(page.data)
assert "svg" in page.tags and not page.links, page.links
assert data["kernels"][0]["loops"] and data["kernels"][0]["code"] and data["edges"] and data["kernels"][0]["memory_ms"] > 0
assert data["kernels"][0]["registers"] >= data["kernels"][0]["registers_parts"]
P
expect 0 "$tektite" what-if good.tk --cut %2,%3 --json; json "d['before']['launches'] == 1 and d['after']['launches'] == 2 and d['edges'][0]['reason'] == 'user fence'"
expect 0 "$tektite" what-if good.tk --fuse %2,%4 --json; json "d['before'] == d['after'] and d['edges'] == []"
expect 0 "$tektite" run good.tk --cut %3,*
expect 2 "$tektite" what-if good.tk
expect 2 "$tektite" what-if good.tk --cut %2
expect 2 "$tektite" what-if good.tk --cut %2,%9
expect 0 "$tektite" verify good.tk --json; json "d['ok'] and d['first_wrong'] is None"
expect 0 "$tektite" opt good.tk --passes dce
expect 0 "$tektite" opt good.tk --passes fuse
expect 0 "$tektite" compile good.tk -o made
[ -n "$(ls made/*.ll 2>/dev/null)" ] && [ -n "$(ls made/*report.json)" ] || fail "compile: wrote $(ls made)"
expect 0 "$tektite" bench good.tk --time 0.05 --vs unfused --json; json "d['median_ms'] > 0 and d['ratio_low'] <= d['ratio'] <= d['ratio_high'] and d['peak_rss_bytes'] > 0"
expect 0 "$tektite" run --builtin transformer-block --json; json "d['outputs'][0]['shape'] == [128, 256]"

# ---- a model in parts
decode=$tests/models/decode/model.onnx data=$tests/models/decode/test_data_set_0
expect 0 "$tektite" run "$decode" --inputs "$data" --expect "$data" --max-rel 1e-5 --json; json "d['ok'] and d['outputs'][0]['shape'] == [1, 9]"
expect 0 "$tektite" verify "$decode" --inputs "$data" --json; json "len(d) > 2 and all(part['ok'] for part in d)"
expect 0 "$tektite" explain "$decode" --inputs "$data"; grep -q '^part 1 of .*ends where a run has to tell: ' out || fail "explain: no parts in $(cat out)"
expect 0 "$tektite" compile "$decode" --inputs "$data" -o parts
[ -n "$(ls parts/*part2_*.ll 2>/dev/null)" ] || fail "compile: wrote $(ls parts)"
expect 0 "$tektite" bench "$decode" --inputs "$data" --time 0.05 --json; json "d['median_ms'] > 0 and d['launches'] > 7 and 0 < d['share_of_fma_low'] <= d['share_of_fma'] <= d['share_of_fma_high']"

# ---- the worker protocol
printf '{"cmd": "run", "n": 3}\n{"cmd": "save", "dir": "outputs"}\n{"cmd": "rss"}\n{"cmd": "jump"}\n' | "$tektite" bench good.tk --worker --threads 1 >out 2>err || fail "worker: $(cat err)"
python3 - <<'P' || fail "worker: $(cat out)"
import json
first, run, save, rss, wrong = map(json.loads, open("out"))
assert first["ok"] and {"compile_s", "once_s", "version", "base_rss_mb"} <= first.keys()
assert len(run["ns"]) == 3 and save["ok"] and rss["rss_mb"] > 0 and not wrong["ok"]
P

[ $failures = 0 ] || { echo "$failures failures" >&2; exit 1; }
