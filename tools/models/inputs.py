"""Valid fixed-seed inputs for the models of models.tsv."""
import zlib

import numpy as np
import onnx

# name: input shape kind, ... ; kinds: normal[:scale], unit[:scale] (from 0), page[:scale] (a picture with lines of marks,
# from 0), image[:scale] (the same about 0), pcm (a voiced sound in -1..1), pcm16 (the same in int16's range), ids:N
# (0 <= id < N) or ids:M-N, ones, zeros, is:V. An input that is not named has a fixed shape: a picture if it has 4 dimensions.
SPEC = """
ppocr4_det: x 1,3,640,640 image:4
ppocr4_rec: x 1,3,48,320 image:4
ppocr2_cls: x 1,3,48,192 image:4
ppocr6_det: x 1,3,640,640 image:4
ddddocr_common: input1 1,1,64,160 image:4
nudenet_320n: images 1,3,320,320 page
layout_cdla: image 1,3,800,608 image:4
lore_detect: input 1,3,512,512 image:4
lore_process: slct_logi_feat 1,12,256 normal, dets 1,12,8 ids:192
table_cls: input 1,3,224,224 image:4
orinet: x 1,3,320,320 page
vit_s_focus: input_image 1,3,224,224 image:4
silero_vad: input 1,576 pcm, state 2,1,128 zeros, sr - is:16000
silero_vad_half: input 1,576 pcm, state 2,1,128 zeros
silero_vad_ifless: input 1,576 pcm, state 2,1,128 zeros, sr - is:16000
silero_vad_batch: input 16,576 pcm, h 1,1,128 zeros, c 1,1,128 zeros
marblenet: audio 1,1,16000 pcm16
oww_melspec: input 1,17280 pcm16
ewn_resnet50: input 1,1,149,64 normal
ewn_resnet50_q8: input 1,1,149,64 normal
basic_pitch: serving_default_input_2:0 1,43844,1 pcm
dnsmos_p808: input_1 1,900,120 normal
dnsmos_p835: input_1 1,144160 pcm
aecmos_16k: input 1,3,200,160 normal, h0 4,1,64 zeros
plcmos_v2: degraded_audio 1,1,300,257 normal, rater_embed 1,64 normal
vfl_embedder_q8: mel_window 1,80,40 normal
kokoro_q8: tokens 1,24 ids:43-157, style 1,256 normal:0.15, speed 1 ones
eeg_spindle: raw_signal 1,1,7500 normal, spectrogram 1,15,7500 normal
ieeg_spindle: raw_signal 1,1,7500 normal, spectrogram 1,15,7500 normal
magika: bytes 1,2048 ids:257
nakdimon: input_1 1,80 ids:43
tashkeel_bilstm_q8: input_ids 1,64 ids:54
tashkeel_rawi_q8: input 1,64 ids:236
romanizer_enc: src 1,12 ids:160, src_mask 1,12 zeros
attacut_c: input 1,64 ids:139
deepcut: input_1 64,21 ids:81, input_2 64,21 ids:12
titler_enc_q8: input_ids 1,48 ids:32128, attention_mask 1,48 ones
titler_dec_q8: input_ids 1,12 ids:32128, encoder_hidden_states 1,48,512 normal:0.2, encoder_attention_mask 1,48 ones
rxnmap: atoms 1,40 ids:121, neighbors 1,40 ids:17, distances 1,40,40 ids:13, roles 1,40 ids:4
caustic_nmr: element 60 ids:7, amino_acid 60 ids:21, atom_role 60 ids:14, bfactor 60 unit, edge_index 2,400 ids:60, edge_dist 400 unit:8, seq_sep 400 ids:33, same_residue 400 ids:2, target_indices 8,6 ids:60, target_mask 8,6 ones, residue_types 8 ids:21, residue_geometry 8,52 normal, target_environment 8,6,15 normal, temperature_feature 8,1 normal, target_atom_rsasa 8,6 unit, pos 60,3 normal:4, node_normal 60,3 normal, is_hbond 400 ids:2, hb_cos 400 unit
atspm_decode: X 16,25 normal
atspm_lgbm: X 16,261 normal
atspm_setback: X 16,59 normal
atspm_func_pair: x 16,15,256 normal
surf_gbr: input 16,4 unit:4
logreg_iris: float_input 3,2 unit:4
"""


def spec():
    return {name: {w[0]: w[1:] for w in (part.split() for part in rest.split(", "))}
            for name, rest in (line.split(": ", 1) for line in SPEC.strip().splitlines())}


def page(rng, shape):
    """A picture in 0..1, channels first or last: shades, then dark marks in lines, as of a text."""
    channels, (h, w) = (shape[1], shape[2:]) if shape[1] in (1, 3) else (shape[3], shape[1:3])
    y, x = np.mgrid[0:h, 0:w]
    pic = np.stack([0.75 + 0.2 * np.sin(x / w * rng.uniform(1, 5) + y / h * rng.uniform(1, 5)) for _ in range(channels)])
    line = min(32, max(h // 2, 8))
    for top in range(line // 4, h - line // 2, line):
        left = line // 2
        while left < w - line // 2:
            wide = int(rng.integers(2, line // 3 + 2))
            a, b = sorted(rng.integers(0, line // 2 + 1, 2))
            pic[:, top + a:top + b + 2, left:left + wide] *= rng.uniform(0.05, 0.4)
            left += wide + int(rng.integers(1, line // 3 + 2))
    pic = np.clip(pic + 0.02 * rng.standard_normal(pic.shape), 0, 1)[None]
    return pic if shape[1] in (1, 3) else pic.transpose(0, 2, 3, 1)


def make(rng, kind, shape):
    kind, _, arg = kind.partition(":")
    low, _, arg = arg.rpartition("-")
    low, arg = int(low or 0), float(arg or 1)
    n = int(np.prod(shape))
    if kind == "normal":
        return rng.standard_normal(shape) * arg
    if kind == "unit":
        return rng.random(shape) * arg
    if kind in ("page", "image"):
        x = page(rng, shape)
        return (x if kind == "page" else x - 0.5) * arg
    if kind in ("pcm", "pcm16"):  # harmonics of 140 Hz at 16 kHz under a slow envelope, and some noise
        t = np.arange(n) / 16000
        sound = sum(np.sin(2 * np.pi * 140 * k * t) / k for k in range(1, 12)) * (0.6 + 0.4 * np.sin(2 * np.pi * 3 * t))
        sound = (0.25 * sound + 0.01 * rng.standard_normal(n)).reshape(shape)
        return np.round(sound * 16384) if kind == "pcm16" else sound
    if kind == "ids":
        return rng.integers(low, int(arg), shape)
    if kind == "graph":  # edges inside the two halves of a graph of 24 nodes
        return np.where(np.arange(shape[1]) % 2, 12, 0) + rng.integers(0, 12, shape)
    if kind == "halves":
        return np.arange(n) * 2 // n
    return np.full(shape, {"ones": 1, "zeros": 0, "is": arg}[kind])


def feeds(name, model):
    """input name -> array, for the inputs that are not initializers, in the graph's order"""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    fixed = {i.name for i in model.graph.initializer}
    given, out = spec().get(name, {}), {}
    for info in model.graph.input:
        if info.name in fixed:
            continue
        tensor = info.type.tensor_type
        shape = [d.dim_value for d in tensor.shape.dim]
        kind = "image:4" if len(shape) == 4 else "normal"
        if info.name in given:
            text, kind = given[info.name]
            shape = [] if text == "-" else [int(s) for s in text.split(",")]
        out[info.name] = np.asarray(make(rng, kind, shape), onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    return out
