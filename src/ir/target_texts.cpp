#include "ir/target_texts.h"

namespace tektite {
namespace {

// Sizes and alignments: ascendnpu-ir 1.2.0. Rates and cycles: the cost model of pto-isa. Launch: a guess, 5 to 10 us.
// A vector instruction works on 256 B a cycle after 25 cycles; vector and cube cores exchange data through main memory.
constexpr std::string_view kAscend910b = R"(
name = "npu:ascend910b"
kind = "npu"
cores = 24
hertz = 1.85e9
vector_bytes = 256
vector_registers = 32
masked_moves = true
fma_per_cycle = 1.0
slots_per_cycle = 1.0
loads_per_cycle = 1.0
launch_seconds = 5e-6
grid_sync = false
scratch = "ub"
operands = "l1"
vector_start_cycles = 25.0
queues = ["mte2", "mte1", "cube", "fix", "mte3"]
levels = [
  {name = "reg", bytes = 8192},
  {name = "l0a", bytes = 65536, align = 32},
  {name = "l0b", bytes = 65536, align = 32},
  {name = "l0c", bytes = 131072, align = 512},
  {name = "ub", bytes = 196608, align = 32},
  {name = "l1", bytes = 524288, align = 32},
  {name = "main", shared_bytes_per_second = 1.2e12}]
paths = [
  {from = "main", to = "ub", engine = "mte2", bytes_per_second = 1.0834e11, half_bytes = 30643.0},
  {from = "main", to = "l1", engine = "mte2", bytes_per_second = 1.4496e11, half_bytes = 30643.0},
  {from = "ub", to = "main", engine = "mte3", bytes_per_second = 2.0240e11, half_bytes = 30643.0},
  {from = "l0c", to = "main", engine = "fix", bytes_per_second = 7.516e10, half_bytes = 30643.0},
  {from = "l1", to = "l0a", engine = "mte1", bytes_per_second = 4.7352e11},
  {from = "l1", to = "l0b", engine = "mte1", bytes_per_second = 2.3676e11}]
matrix = {engine = "cube", left = "l0a", right = "l0b", result = "l0c", rows = 16, columns = 16, depth_bytes = 32, start_cycles = 6.0, wide = 2.0}
)";

// The vendor's NKI documentation, one core: 128 partitions of 192 KiB; 16 DMA engines of 17 B/ns, 1 300 ns start each; 128x128 at 2.8 GHz,
// of which a column of the moving operand enters each cycle. Launch, latency: guesses.
constexpr std::string_view kNeuronCore2 = R"(
name = "npu:neuroncore2"
kind = "npu"
cores = 1
hertz = 1.12e9
vector_bytes = 512
vector_registers = 32
masked_moves = true
fma_per_cycle = 1.0
slots_per_cycle = 1.0
loads_per_cycle = 1.0
launch_seconds = 5e-6
grid_sync = false
scratch = "sbuf"
operands = "sbuf"
vector_start_cycles = 100.0
latency_seconds = 2e-7
queues = ["load", "feed", "pe", "store"]
levels = [
  {name = "reg", bytes = 8192},
  {name = "stationary", bytes = 65536},
  {name = "moving", bytes = 262144},
  {name = "psum", bytes = 2097152},
  {name = "sbuf", bytes = 25165824, align = 4},
  {name = "main", shared_bytes_per_second = 4.1e11}]
paths = [
  {from = "main", to = "sbuf", engine = "load", bytes_per_second = 2.72e11, start_seconds = 1.3e-6, channels = 16},
  {from = "sbuf", to = "main", engine = "store", bytes_per_second = 2.72e11, start_seconds = 1.3e-6, channels = 16},
  {from = "sbuf", to = "stationary", engine = "feed", bytes_per_second = 7.168e11},
  {from = "sbuf", to = "moving", engine = "feed", bytes_per_second = 7.168e11}]
matrix = {engine = "pe", left = "stationary", right = "moving", result = "psum", rows = 128, columns = 1, depth_bytes = 256, hertz = 2.8e9, start_cycles = 64.0, wide = 4.0}
)";

// vela.ini of ethos-u-vela 5.2.0: SRAM 4 x 14.9 GB/s, DRAM 22.35 GB/s, latency 500 cycles. Its performance model: depthwise takes a cycle for each
// block of results and tap, taps by fours; the output stage writes an 8-bit result in 1/16 of a cycle. Guesses: 1 GHz, blocks of
// 8 x 16 x 8, buffers beside the array, vector instructions.
constexpr std::string_view kEthosU85 = R"(
name = "npu:ethos-u85-1024"
kind = "npu"
cores = 1
hertz = 1e9
vector_bytes = 16
vector_registers = 32
masked_moves = true
fma_per_cycle = 1.0
slots_per_cycle = 4.0
loads_per_cycle = 1.0
launch_seconds = 0.0
grid_sync = false
scratch = "sram"
operands = "sram"
vector_start_cycles = 16.0
latency_seconds = 5e-7
queues = ["load", "feed", "mac", "out", "store"]
levels = [
  {name = "reg", bytes = 8192},
  {name = "ifm", bytes = 65536},
  {name = "wgt", bytes = 65536},
  {name = "acc", bytes = 65536},
  {name = "sram", bytes = 393216, align = 16},
  {name = "main", bytes_per_second = 2.235e10}]
paths = [
  {from = "main", to = "sram", engine = "load", bytes_per_second = 2.235e10, start_seconds = 5e-7, channels = 8},
  {from = "sram", to = "main", engine = "store", bytes_per_second = 2.235e10, start_seconds = 2.5e-7, channels = 8},
  {from = "sram", to = "ifm", engine = "feed", bytes_per_second = 5.96e10},
  {from = "sram", to = "wgt", engine = "feed", bytes_per_second = 5.96e10},
  {from = "ifm", to = "acc", engine = "mac", bytes_per_second = 1.28e11, products_at_once = 4},
  {from = "acc", to = "sram", engine = "out", bytes_per_second = 1.6e10}]
matrix = {engine = "mac", left = "ifm", right = "wgt", result = "acc", rows = 8, columns = 16, depth_bytes = 8, start_cycles = 16.0, wide = 4.0}
)";

// vela.ini of ethos-u-vela 5.2.0: SRAM 14.9 GB/s, DRAM 3.49 GB/s; 512 products a cycle. Its performance model: depthwise as above; an
// 8-bit result in 1/8 of a cycle. Guesses as above.
constexpr std::string_view kEthosU65 = R"(
base = "npu:ethos-u85-1024"
name = "npu:ethos-u65-512"
levels = [
  {name = "reg", bytes = 8192},
  {name = "ifm", bytes = 32768},
  {name = "wgt", bytes = 32768},
  {name = "acc", bytes = 32768},
  {name = "sram", bytes = 393216, align = 16},
  {name = "main", bytes_per_second = 3.49e9}]
paths = [
  {from = "main", to = "sram", engine = "load", bytes_per_second = 3.49e9, start_seconds = 5e-7, channels = 8},
  {from = "sram", to = "main", engine = "store", bytes_per_second = 3.49e9, start_seconds = 2.5e-7, channels = 8},
  {from = "sram", to = "ifm", engine = "feed", bytes_per_second = 1.49e10},
  {from = "sram", to = "wgt", engine = "feed", bytes_per_second = 1.49e10},
  {from = "ifm", to = "acc", engine = "mac", bytes_per_second = 6.4e10, products_at_once = 4},
  {from = "acc", to = "sram", engine = "out", bytes_per_second = 8e9}]
matrix = {engine = "mac", left = "ifm", right = "wgt", result = "acc", rows = 8, columns = 8, depth_bytes = 8, start_cycles = 16.0, wide = 4.0}
)";

// Its default configuration: 16x16 int8, scratchpad 256 KiB, accumulator 64 KiB, 16 B a cycle. Guesses: 1 GHz, latency 200 ns, launch 5 us.
constexpr std::string_view kGemmini = R"(
name = "npu:gemmini"
kind = "npu"
cores = 1
hertz = 1e9
vector_bytes = 16
vector_registers = 32
masked_moves = true
fma_per_cycle = 1.0
slots_per_cycle = 1.0
loads_per_cycle = 1.0
launch_seconds = 5e-6
grid_sync = false
scratch = "spad"
operands = "spad"
vector_start_cycles = 16.0
latency_seconds = 2e-7
queues = ["load", "feed", "mesh", "store"]
levels = [
  {name = "reg", bytes = 8192},
  {name = "rows", bytes = 65536},
  {name = "columns", bytes = 65536},
  {name = "acc", bytes = 65536},
  {name = "spad", bytes = 262144, align = 16},
  {name = "main", bytes_per_second = 1.6e10}]
paths = [
  {from = "main", to = "spad", engine = "load", bytes_per_second = 1.6e10, start_seconds = 2e-7, channels = 4},
  {from = "spad", to = "main", engine = "store", bytes_per_second = 1.6e10, start_seconds = 2e-7, channels = 4},
  {from = "spad", to = "rows", engine = "feed", bytes_per_second = 1.6e10},
  {from = "spad", to = "columns", engine = "feed", bytes_per_second = 1.6e10}]
matrix = {engine = "mesh", left = "rows", right = "columns", result = "acc", rows = 1, columns = 16, depth_bytes = 16, start_cycles = 16.0, wide = 4.0}
)";

constexpr std::pair<std::string_view, std::string_view> kTexts[] = {
    {"npu:ascend910b", kAscend910b},   {"npu:ethos-u65-512", kEthosU65},
    {"npu:ethos-u85-1024", kEthosU85}, {"npu:gemmini", kGemmini},
    {"npu:neuroncore2", kNeuronCore2},
};

}  // namespace

std::span<const std::pair<std::string_view, std::string_view>> targetTexts() { return kTexts; }

}  // namespace tektite
