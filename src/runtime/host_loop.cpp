#include "runtime/host_loop.h"

#include <cstring>

#include "support/check.h"

namespace tektite {
namespace {

Carried scalar(DType type, int64_t value) {
  auto array = std::make_shared<Array>(type, std::vector<int64_t>{});
  storeInteger(type, array->data(), 0, value);
  return carriedFrom(std::shared_ptr<const Array>(array));
}

int64_t integerOf(const Carried& c, const std::string& origin) {
  if (elementsOf(c.shape) != 1 || isFloat(c.type))
    userError("node '{}': {} controls a loop, expected one integer or bool", origin,
              shapeText(c.type, c.shape));
  return loadInteger(c.type, c.data, 0);
}

}  // namespace

int64_t bytesOf(const Carried& c) { return elementsOf(c.shape) * bytes(c.type); }

HostLoopRun::HostLoopRun(const LoopPart& part, const std::optional<Carried>& trips,
                         const std::optional<Carried>& condition)
    : part_(part),
      trips_(trips ? integerOf(*trips, part.origin) : INT64_MAX),
      condition_(!condition || integerOf(*condition, part.origin) != 0),
      stacks_(part.results.size() - part.states.size()) {}

int64_t HostLoopRun::steps() const {
  int64_t n = trips_;
  for (const Carried& c : scanned) {
    if (c.shape.empty()) userError("node '{}': a scanned input has no axis", part_.origin);
    n = std::min(n, c.shape[0]);
  }
  return n;
}

bool HostLoopRun::goesOn() const { return condition_ && step_ < steps(); }

std::vector<Carried> HostLoopRun::bodyInputs() const {
  std::vector<Carried> in;
  if (part_.counted) in = {scalar(DType::I64, step_), scalar(DType::Bool, condition_)};
  in.insert(in.end(), states.begin(), states.end());
  for (size_t i = 0; i < scanned.size(); ++i) {
    Carried slice = scanned[i];
    const int64_t n = slice.shape[0], at = reversed(i) ? n - 1 - step_ : step_;
    slice.shape.erase(slice.shape.begin());
    if (n > 0) slice.data = static_cast<const char*>(slice.data) + at * bytesOf(slice);
    in.push_back(std::move(slice));
  }
  return in;
}

void HostLoopRun::take(const std::vector<Carried>& results) {
  size_t next = 0;
  if (part_.counted) condition_ = integerOf(results.at(next++), part_.origin) != 0;
  for (Carried& state : states) state = results.at(next++);
  for (Stack& stack : stacks_) stack.push(results.at(next++), part_.origin, step_ == 0);
  ++step_;
}

void HostLoopRun::Stack::push(const Carried& slice, const std::string& origin, bool first) {
  if (first) {
    type = slice.type;
    shape = slice.shape;
  }
  if (type != slice.type || shape != slice.shape)
    userError("node '{}': steps give {} and {} to be stacked", origin, shapeText(type, shape),
              shapeText(slice.type, slice.shape));
  const int64_t more = bytesOf(slice);
  if (!memory || used + more > memory->elements()) {
    auto larger = std::make_shared<Array>(
        DType::U8, std::vector<int64_t>{std::max<int64_t>(2 * used, used + more)});
    if (memory) std::memcpy(larger->data(), memory->data(), static_cast<size_t>(used));
    memory = std::move(larger);
  }
  std::memcpy(static_cast<char*>(memory->data()) + used, slice.data, static_cast<size_t>(more));
  used += more;
}

bool HostLoopRun::needsTypes() const { return step_ == 0 && !stacks_.empty(); }

void HostLoopRun::takeTypes(const std::vector<TensorType>& types) {
  for (size_t i = 0; i < stacks_.size(); ++i) {
    stacks_[i].type = types[i].dtype;
    stacks_[i].shape = types[i].extents();
  }
}

std::vector<Carried> HostLoopRun::results() const {
  std::vector<Carried> out = states;
  for (size_t i = 0; i < stacks_.size(); ++i) {
    const Stack& stack = stacks_[i];
    Carried c{stack.type, stack.shape, stack.memory ? stack.memory->data() : nullptr, stack.memory};
    const int64_t size = bytesOf(c);
    c.shape.insert(c.shape.begin(), step_);
    if (reversed(scanned.size() + i)) {
      auto turned = std::make_shared<Array>(c.type, c.shape);
      for (int64_t s = 0; s < step_; ++s)
        std::memcpy(static_cast<char*>(turned->data()) + (step_ - 1 - s) * size,
                    static_cast<const char*>(c.data) + s * size, static_cast<size_t>(size));
      c = carriedFrom(std::shared_ptr<const Array>(std::move(turned)));
    }
    out.push_back(std::move(c));
  }
  return out;
}

}  // namespace tektite
