#pragma once
#include "ops/op.h"

namespace tektite {

constexpr std::string_view kMicrosoft = "com.microsoft";

/// The first result of an operator of ONNX's own domain, for definitions that stand on it.
Value built(Builder&, std::string op, std::vector<Value> in,
            std::map<std::string, Attribute> attributes = {}, int opset = 23);

}  // namespace tektite
