#pragma once
#include <onnx/onnx_pb.h>

#include <set>

#include "onnx/import.h"
#include "onnx/model.h"

namespace tektite {

using Opsets = std::map<std::string, int64_t>;
using NodeList = google::protobuf::RepeatedPtrField<onnx::NodeProto>;
using Names = std::set<std::string>;

/// A model, and what is found in it once.
struct Source {
  explicit Source(const std::string& path);
  Model model;
  Opsets opsets;
  std::map<std::pair<std::string, std::string>, const onnx::FunctionProto*> functions;
};

/// A value between parts: a constant, or carried.
struct Held {
  std::shared_ptr<const Node> constant;
  int carried = -1;
  TensorType type;
  std::string name;  ///< of the input that it becomes; may be empty
};

/// The values that names mean. Initialisers become constants, and held values values, where they are first read.
struct Scope {
  std::map<std::string, Value> values;
  std::map<std::string, Held> held;
  std::map<std::string, const onnx::TensorProto*> initializers;
  std::map<std::string, const onnx::AttributeProto*>
      attributes;  ///< of a function's call, for references
};

/// A list of nodes under way: the model's, a function's, a branch's.
struct Frame {
  const NodeList* list = nullptr;
  int next = 0;
  std::string prefix;  ///< of the names of its nodes
  std::shared_ptr<Scope> scope;
  Opsets opsets;
  std::vector<std::pair<std::string, std::string>>
      returns;  ///< its name, the name in the frame below; "": nobody asks
};

/// A state that a loop's graph hands on as it is: no state then, but a value from around the loop.
struct FixedState {
  int state;
  std::string inside;  ///< its name in the graph
  Value value;
};

/// What an operator's definition that paused goes on with.
struct Pending {
  std::function<std::vector<Value>(Builder&, const std::vector<Value>&)> then;
  std::vector<Held> values;
  std::vector<Value> bound;  ///< in place of `values`, within a part
  std::string origin;
};

struct ImportState {
  std::shared_ptr<const Source> source;
  std::vector<ModelInfo::Port> inputs;  ///< of the model, where this is all of it
  std::map<int, TensorType> types;      ///< of the rest's `valued`
  std::vector<Frame> frames;            ///< their scopes have no `values`
  std::vector<std::string> results;     ///< names in the first frame
  std::optional<Pending> pending;
  int nextCarried = 0;
};

/// The names that nodes from `first` on read from around them.
void readFromOutside(const NodeList&, int first, Names& own, Names& out);
void readFromOutside(const onnx::GraphProto&, Names& out);

/// Builds nodes into one graph. NeedValue and HostLoop leave the frames at the node that asks.
class Importer {
 public:
  Importer(std::shared_ptr<const Source> source, std::vector<Frame> frames);

  Builder b;
  std::vector<Frame> frames;
  std::map<int, Value> carried;  ///< inputs of the graph

  /// To the end of the first frame, whose scope it answers.
  std::shared_ptr<Scope> run();
  void finishPending(const Pending&);
  Value lookup(Builder&, Scope&, const std::string& name);
  Value bind(Builder&, const Held&);
  const Source& source() const { return *source_; }
  /// The node that the top frame is at; its name and operator; a graph among its attributes; and a UserError there.
  const onnx::NodeProto& current() const;
  std::string place() const;
  const onnx::GraphProto& graphAttribute(const std::string& name) const;
  [[noreturn]] void refuse(const std::string& why) const;
  /// Of a node whose inputs have values: those of a loop, ascending.
  std::vector<FixedState> fixedStates(Builder&, Scope&, const onnx::NodeProto&);

 private:
  std::shared_ptr<Scope> run(Builder&, std::vector<Frame>&);
  void finish(Builder&, std::vector<Frame>&);
  void node(Builder&, std::vector<Frame>&, const onnx::NodeProto&, const std::string& name);
  void assign(Scope&, const onnx::NodeProto&, const std::vector<Value>& results);
  bool branch(Builder&, std::vector<Frame>&, const onnx::NodeProto&, const std::string& name);
  void call(std::vector<Frame>&, const onnx::FunctionProto&, const onnx::NodeProto&,
            const std::vector<Value>& in, const std::string& name);
  void attribute(Builder&, Frame&, OpCall&, const onnx::AttributeProto&, const std::string& name,
                 const std::vector<FixedState>&);
  Body body(Builder&, Frame&, const onnx::GraphProto&, const std::string& name,
            const std::vector<FixedState>&);

  std::shared_ptr<const Source> source_;
  bool placed_ = false;
};

/// A loop's results, those of fixed states put between the others.
std::vector<Value> withFixed(const std::vector<Value>& results, const std::vector<FixedState>&);
/// Is this the number of an output (the condition is 0) or of an input (iteration and condition come first) of a fixed state?
bool isFixed(const std::vector<FixedState>&, int number, int before);

/// A name that graph text can say and that means nothing else there.
std::string dimName(const std::string& from);
std::string domainOf(const std::string& domain);  ///< "ai.onnx" is ""
/// The name of a list's node: its own, or <operator>_<index>; with that of its frame before.
std::string nodeName(const onnx::NodeProto&, int index);
std::string nodeName(const Frame&, int index);

}  // namespace tektite
