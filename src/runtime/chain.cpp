#include "runtime/chain.h"

#include <cstring>

#include "ir/bytes.h"
#include "ir/graph_eval.h"
#include "runtime/host_loop.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr size_t kPooled = 4;  // buffers of one output: states alternate between two

TensorType typeOf(const Carried& c) { return {c.type, {c.shape.begin(), c.shape.end()}}; }

template <class T>
void append(std::string& key, const T& value) {
  key.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// What decides which program runs: where the model is, and what it asked for there.
std::string keyOf(const Rest& rest, const std::map<int, Carried>& values) {
  std::string key;
  append(key, rest.number);
  for (const int id : rest.shaped) {
    const Carried& c = values.at(id);
    append(key, c.type);
    append(key, c.shape.size());
    for (const int64_t n : c.shape) append(key, n);
  }
  for (const int id : rest.valued) {
    const Carried& c = values.at(id);
    key.append(static_cast<const char*>(c.data), static_cast<size_t>(bytesOf(c)));
  }
  return key;
}

/// Memory of a run before that nobody holds any more, or new.
std::shared_ptr<Array> buffer(std::vector<std::shared_ptr<Array>>& pool, const TensorType& type) {
  for (const auto& known : pool)
    if (known.use_count() == 1) return known;
  const auto made = std::make_shared<Array>(type.dtype, type.extents());
  if (pool.size() < kPooled) pool.push_back(made);
  return made;
}

}  // namespace

Carried carriedFrom(const Array& a) { return {a.type, a.shape, a.data(), nullptr}; }

Carried carriedFrom(std::shared_ptr<const Array> a) { return {a->type, a->shape, a->data(), a}; }

Array arrayFrom(const Carried& c) {
  Array a(c.type, c.shape);
  std::memcpy(a.data(), c.data, static_cast<size_t>(bytesOf(c)));
  return a;
}

Chain::Chain(RestPtr model, CompileOptions options, Team& team, bool interpreted, Limits limits)
    : model_(std::move(model)),
      options_(std::move(options)),
      interpreted_(interpreted),
      limits_(limits),
      team_(team) {}

std::vector<Carried> Chain::run(const std::vector<Carried>& inputs) {
  if (inputs.size() != model_->shaped.size())
    userError("{} inputs found, expected {}", inputs.size(), model_->shaped.size());
  Values values;
  for (size_t i = 0; i < inputs.size(); ++i) values[static_cast<int>(i)] = inputs[i];
  ++runs_;
  reached_.clear();
  return execute(model_, std::move(values));
}

const Chain::Stage& Chain::first(const std::vector<Carried>& inputs) {
  if (inputs.size() != model_->shaped.size())
    userError("{} inputs found, expected {}", inputs.size(), model_->shaped.size());
  Values values;
  for (size_t i = 0; i < inputs.size(); ++i) values[static_cast<int>(i)] = inputs[i];
  return *stageFor(*model_, values);
}

std::vector<Carried> Chain::execute(RestPtr rest, Values values) {
  for (;;) {
    const std::shared_ptr<Stage> stage =
        stageFor(*rest, values);  // it may leave the cache meanwhile
    if (stage->lastRun != runs_) {
      reached_.push_back(stage);
      stage->times = 0;
    }
    stage->lastRun = runs_;
    ++stage->times;
    const Part& part = stage->part;
    compute(*stage, values);
    if (part.loop) loop(*part.loop, values);
    if (!part.rest) {
      std::vector<Carried> results;
      for (const int id : part.results) results.push_back(values.at(id));
      return results;
    }
    rest = part.rest;
    Values kept;
    for (const int id : rest->reads) kept[id] = std::move(values.at(id));
    values = std::move(kept);
  }
}

std::shared_ptr<Chain::Stage> Chain::stageFor(const Rest& rest, const Values& values) {
  std::string key = keyOf(rest, values);
  if (const auto known = byKey_.find(key); known != byKey_.end()) {
    stages_.splice(stages_.begin(), stages_, known->second);
    return stages_.front().second;
  }
  stages_.emplace_front(key, make(rest, values));
  byKey_[std::move(key)] = stages_.begin();
  const std::shared_ptr<Stage> made = stages_.front().second;
  bytes_ += made->bytes;
  while (stages_.size() > 1 && (stages_.size() > limits_.parts || bytes_ > limits_.bytes)) {
    bytes_ -= stages_.back().second->bytes;
    byKey_.erase(stages_.back().first);
    stages_.pop_back();
  }
  return made;
}

std::shared_ptr<Chain::Stage> Chain::make(const Rest& rest, const Values& values) {
  std::map<int, TensorType> types;
  for (const int id : rest.shaped) types[id] = typeOf(values.at(id));
  std::map<int, std::shared_ptr<const ConstData>> known;
  for (const int id : rest.valued) {
    const auto copy = std::make_shared<Array>(arrayFrom(values.at(id)));
    auto data = std::make_shared<ConstData>();
    data->data = copy->data();
    data->bytes = static_cast<size_t>(bytesOf(values.at(id)));
    data->owner = copy;
    known[id] = std::move(data);
  }
  auto stage = std::make_shared<Stage>();
  stage->part = importPart(rest, types, known);
  if (stage->part.graph.outputs.empty()) return stage;
  stage->pool.resize(stage->part.outputs.size());
  if (interpreted_) return stage;
  stage->graph = prepareGraph(stage->part.graph, {}, options_.passes);
  stage->program = compile(stage->graph, options_);
  stage->session = std::make_unique<Session>(stage->program, &team_);
  stage->bytes = stage->program->packedBytes + stage->session->bytes();
  for (const TensorType& type : stage->program->outputs) stage->bytes += bytesOf(type);
  ++compilations_;
  return stage;
}

void Chain::compute(Stage& stage, Values& values) {
  const Part& part = stage.part;
  std::vector<Carried> inputs;
  for (const int id : part.inputs) inputs.push_back(values.at(id));
  if (observe) observe(stage, inputs);
  if (part.outputs.empty()) return;
  std::vector<std::shared_ptr<Array>> made;
  for (size_t i = 0; i < part.outputs.size(); ++i)
    made.push_back(buffer(stage.pool[i], part.graph.type(part.graph.outputs[i])));
  if (interpreted_) {
    std::vector<Tensor> tensors;
    for (const Carried& c : inputs) tensors.push_back(Tensor::fromRaw(c.type, c.shape, c.data));
    const std::vector<Tensor> results = evaluate(part.graph, tensors);
    for (size_t i = 0; i < results.size(); ++i) results[i].toRaw(made[i]->data());
  } else {
    std::vector<const void*> in;
    std::vector<void*> out;
    for (const Carried& c : inputs) in.push_back(c.data);
    for (const auto& array : made) out.push_back(array->data());
    stage.session->run(in.data(), out.data());
  }
  for (size_t i = 0; i < made.size(); ++i) values[part.outputs[i]] = carriedFrom(made[i]);
}

/// What a loop that made no step would have stacked: by its body, where that is one part, else as the model declares it.
std::vector<TensorType> Chain::stackedTypes(const LoopPart& loop, const Values& values) {
  const std::shared_ptr<Stage> stage = stageFor(*loop.body, values);
  const Part& body = stage->part;
  std::vector<TensorType> types;
  for (size_t i = 0; i < loop.declared.size(); ++i) {
    if (!body.rest) {
      const int id = body.results[body.results.size() - loop.declared.size() + i];
      const auto made = std::find(body.outputs.begin(), body.outputs.end(), id);
      types.push_back(made == body.outputs.end()
                          ? typeOf(values.at(id))
                          : body.graph.type(body.graph.outputs[made - body.outputs.begin()]));
    } else if (loop.declared[i]) {
      types.push_back(*loop.declared[i]);
    } else {
      userError("node '{}': no step is made, and only one would say what result {} stacks",
                loop.origin, loop.states.size() + i);
    }
  }
  return types;
}

void Chain::loop(const LoopPart& part, Values& values) {
  Values around;  // what the body reads
  for (const int id : part.body->reads)
    if (const auto at = values.find(id); at != values.end()) around[id] = at->second;
  const auto at = [&](int id) { return id < 0 ? std::optional<Carried>() : values.at(id); };
  HostLoopRun run(part, at(part.trips), at(part.condition));
  for (const int id : part.states) run.states.push_back(values.at(id));
  for (const int id : part.scanned) run.scanned.push_back(values.at(id));
  const auto inner = [&] {
    Values v = around;
    const std::vector<Carried> inputs = run.bodyInputs();
    for (size_t i = 0; i < inputs.size(); ++i) v[part.bodyInputs.at(i)] = inputs[i];
    return v;
  };
  while (run.goesOn()) run.take(execute(part.body, inner()));
  if (run.needsTypes()) run.takeTypes(stackedTypes(part, inner()));
  const std::vector<Carried> results = run.results();
  for (size_t i = 0; i < results.size(); ++i) values[part.results.at(i)] = results[i];
}

}  // namespace tektite
