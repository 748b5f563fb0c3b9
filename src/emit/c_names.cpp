#include "emit/c_body.h"

namespace tektite::c_text {
namespace {

bool isReserved(const std::string& name) {
  static const std::set<std::string> words = {
      "auto",     "bool",     "break",    "case",    "char",     "class",  "const",
      "continue", "default",  "delete",   "do",      "double",   "else",   "enum",
      "event",    "extern",   "float",    "for",     "goto",     "half",   "if",
      "image",    "inline",   "int",      "kernel",  "global",   "local",  "constant",
      "private",  "generic",  "pipe",     "sampler", "long",     "new",    "operator",
      "register", "restrict", "return",   "short",   "signed",   "sizeof", "static",
      "struct",   "switch",   "template", "this",    "typedef",  "union",  "unsigned",
      "using",    "vec",      "virtual",  "void",    "volatile", "while",  "min",
      "max",      "fma",      "sqrt",     "floor",   "ceil",     "trunc",  "rint",
      "fabs",     "exp",      "log",      "pow",     "round",    "sign",   "select",
      "dot",      "cross",    "step",     "mix",     "clamp",    "length", "normalize",
      "distance", "any",      "all",      "rotate",  "mad",      "abs",    "y0",
      "y1",       "yn",       "j0",       "j1",      "jn",       "thread", "tile",
      "at",       "isLast",   "shared",   "rest0",   "rest1",    "rest2",  "rest3",
      "warp",     "lane",     "counters", "asm",     "true",     "false",  "NAN",
      "INFINITY", "and",      "or",       "not",     "xor",      "ushort", "uchar",
      "uint",     "ulong",    "near",     "far",     "main",     "linux",  "unix",
      "signbit",  "isnan",    "isinf",    "erf",     "sin",      "cos",    "tan",
      "tanh",     "i",        "in"};
  return words.count(name) > 0 || dtypeFromName(name) || name.starts_with("__");
}

}  // namespace

std::string identifier(const std::string& name) {
  std::string out;
  for (char c : name) out += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return isReserved(out) ? out + "_" : out;
}

}  // namespace tektite::c_text
