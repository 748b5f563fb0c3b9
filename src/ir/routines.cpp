#include "ir/routines.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "support/check.h"

namespace tektite {
namespace {

using Buffers = std::vector<RoutineBuffer>;

int64_t elements(const RoutineBuffer& b) {
  return std::accumulate(b.shape.begin(), b.shape.end(), int64_t{1}, std::multiplies<>());
}

double numberAt(const RoutineBuffer& b, int64_t i) {
  return isFloat(b.type) ? loadFloat(b.type, b.data, i)
                         : static_cast<double>(loadInteger(b.type, b.data, i));
}

void clear(const RoutineBuffer& b) {
  std::memset(b.data, 0, static_cast<size_t>(elements(b) * bytes(b.type)));
}

int64_t* integers(const RoutineBuffer& b) { return static_cast<int64_t*>(b.data); }

/// places (mask) -> coordinates [rank, elements], count [1]: of true elements, in order.
void places(const Call&, const Buffers& in, const Buffers& out) {
  const RoutineBuffer& mask = in[0];
  const int64_t n = elements(mask);
  int64_t count = 0;
  clear(out[0]);
  for (int64_t i = 0; i < n; ++i) {
    if (loadInteger(mask.type, mask.data, i) == 0) continue;
    int64_t rest = i;
    for (size_t axis = mask.shape.size(); axis-- > 0;) {
      integers(out[0])[static_cast<int64_t>(axis) * n + count] = rest % mask.shape[axis];
      rest /= mask.shape[axis];
    }
    ++count;
  }
  integers(out[1])[0] = count;
}

/// unique (rows [n, ...]) sorted=1 -> first [n], inverse [n], counts [n], count [1]: the distinct rows, in ascending order or in that
/// of their first occurrence; where each is first, which of them each row is, how often each occurs.
void unique(const Call& call, const Buffers& in, const Buffers& out) {
  const RoutineBuffer& rows = in[0];
  const int64_t n = rows.shape.at(0), width = n ? elements(rows) / n : 0;
  const auto order = [&](int64_t a,
                         int64_t b) {  // -1, 0, 1; NaN comes last, and differs from itself
    for (int64_t i = 0; i < width; ++i) {
      if (isFloat(rows.type)) {
        const double x = numberAt(rows, a * width + i), y = numberAt(rows, b * width + i);
        if (std::isnan(x) || std::isnan(y)) {
          if (std::isnan(x) && std::isnan(y) && a == b) continue;
          return std::isnan(x) && std::isnan(y) ? (a < b ? -1 : 1) : std::isnan(x) ? 1 : -1;
        }
        if (x != y) return x < y ? -1 : 1;
      } else {
        const int64_t x = loadInteger(rows.type, rows.data, a * width + i),
                      y = loadInteger(rows.type, rows.data, b * width + i);
        if (x != y)
          return (rows.type == DType::U64 ? static_cast<uint64_t>(x) < static_cast<uint64_t>(y)
                                          : x < y)
                     ? -1
                     : 1;
      }
    }
    return 0;
  };
  std::vector<int64_t> sorted(static_cast<size_t>(n));
  std::iota(sorted.begin(), sorted.end(), 0);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](int64_t a, int64_t b) { return order(a, b) < 0; });
  struct Class {
    int64_t first, count;
    std::vector<int64_t> rows;
  };
  std::vector<Class> classes;
  for (const int64_t row : sorted) {
    if (classes.empty() || order(classes.back().first, row) != 0) classes.push_back({row, 0, {}});
    classes.back().rows.push_back(row);
    ++classes.back().count;
  }
  const auto wanted = call.numbers.find("sorted");
  if (wanted != call.numbers.end() && wanted->second.at(0) == 0)
    std::sort(classes.begin(), classes.end(),
              [](const Class& a, const Class& b) { return a.first < b.first; });
  for (const RoutineBuffer& result : out) clear(result);
  for (size_t c = 0; c < classes.size(); ++c) {
    integers(out[0])[c] = classes[c].first;
    for (const int64_t row : classes[c].rows) integers(out[1])[row] = static_cast<int64_t>(c);
    integers(out[2])[c] = classes[c].count;
  }
  integers(out[3])[0] = static_cast<int64_t>(classes.size());
}

struct Box {
  double low[2], high[2];
  double area() const { return (high[0] - low[0]) * (high[1] - low[1]); }
};

double overlap(const Box& a, const Box& b) {
  double both = 1;
  for (int k : {0, 1})
    both *= std::max(0.0, std::min(a.high[k], b.high[k]) - std::max(a.low[k], b.low[k]));
  const double all = a.area() + b.area() - both;
  return all > 0 ? both / all : 0;
}

Box boxAt(const RoutineBuffer& boxes, int64_t at, bool centred) {
  double p[4];
  for (int k = 0; k < 4; ++k) p[k] = numberAt(boxes, at * 4 + k);
  if (centred) return {{p[0] - p[2] / 2, p[1] - p[3] / 2}, {p[0] + p[2] / 2, p[1] + p[3] / 2}};
  return {{std::min(p[0], p[2]), std::min(p[1], p[3])},
          {std::max(p[0], p[2]), std::max(p[1], p[3])}};
}

/// nms (boxes [batch, n, 4], scores [batch, classes, n], most, overlap, score) centred=0 -> picked [.., 3] of batch, class, box; count [1]:
/// boxes by falling score, at most so many a class, each overlapping no better one of its class by more.
void nms(const Call& call, const Buffers& in, const Buffers& out) {
  const RoutineBuffer &boxes = in[0], &scores = in[1];
  const int64_t n = boxes.shape.at(1), classes = scores.shape.at(1);
  const double most = numberAt(in[2], 0), limit = numberAt(in[3], 0), least = numberAt(in[4], 0);
  const auto given = call.numbers.find("centred");
  const bool centred = given != call.numbers.end() && given->second.at(0) != 0;
  int64_t count = 0;
  clear(out[0]);
  for (int64_t group = 0; group < boxes.shape.at(0) * classes; ++group) {
    const int64_t batch = group / classes;
    std::vector<int64_t> order;
    for (int64_t i = 0; i < n; ++i)
      if (numberAt(scores, group * n + i) > least) order.push_back(i);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return numberAt(scores, group * n + a) > numberAt(scores, group * n + b);
    });
    std::vector<Box> kept;
    for (const int64_t i : order) {
      if (static_cast<double>(kept.size()) >= most || count >= out[0].shape.at(0)) break;
      const Box box = boxAt(boxes, batch * n + i, centred);
      if (std::any_of(kept.begin(), kept.end(),
                      [&](const Box& better) { return overlap(better, box) > limit; }))
        continue;
      kept.push_back(box);
      int64_t* row = integers(out[0]) + 3 * count++;
      row[0] = batch;
      row[1] = group % classes;
      row[2] = i;
    }
  }
  integers(out[1])[0] = count;
}

/// The k places of a row that come first: by value, NaN greater than any number, equals in their order. `T`: holds every value exactly.
template <class T>
void firstPlaces(const std::vector<T>& row, size_t k, bool largest, std::vector<int64_t>& places) {
  const auto before = [&](int64_t x, int64_t y) {
    const T a = row[static_cast<size_t>(x)], b = row[static_cast<size_t>(y)];
    if (a != b && a == a && b == b) return largest ? b < a : a < b;
    if ((a == a) != (b == b)) return (a == a) != largest;  // one is NaN
    return x < y;
  };
  places.resize(row.size());
  std::iota(places.begin(), places.end(), 0);
  const auto middle = places.begin() + static_cast<std::ptrdiff_t>(k);
  if (k < row.size()) std::nth_element(places.begin(), middle, places.end(), before);
  std::sort(places.begin(), middle, before);
}

/// extremes (values) axis, largest -> values and their places [.., k, ..]: the first k along the axis, in order.
template <class T, class LoadElement>
void extremesOf(const Call& call, const Buffers& in, const Buffers& out, LoadElement load) {
  const RoutineBuffer& x = in[0];
  const auto axis = static_cast<size_t>(call.numbers.at("axis").at(0));
  const bool largest = call.numbers.at("largest").at(0) != 0;
  const int64_t n = x.shape.at(axis), k = out[0].shape.at(axis);
  int64_t inner = 1;
  for (size_t i = axis + 1; i < x.shape.size(); ++i) inner *= x.shape[i];
  const size_t size = static_cast<size_t>(bytes(x.type));
  std::vector<T> row(static_cast<size_t>(n));
  std::vector<int64_t> places;
  for (int64_t r = 0; n > 0 && r < elements(x) / n; ++r) {
    const int64_t from = r / inner * n * inner + r % inner, to = r / inner * k * inner + r % inner;
    for (int64_t i = 0; i < n; ++i) row[static_cast<size_t>(i)] = load(x, from + i * inner);
    firstPlaces(row, static_cast<size_t>(k), largest, places);
    for (int64_t i = 0; i < k; ++i) {
      const int64_t place = places[static_cast<size_t>(i)];
      std::memcpy(
          static_cast<char*>(out[0].data) + static_cast<size_t>(to + i * inner) * size,
          static_cast<const char*>(x.data) + static_cast<size_t>(from + place * inner) * size,
          size);
      integers(out[1])[to + i * inner] = place;
    }
  }
}

void extremes(const Call& call, const Buffers& in, const Buffers& out) {
  const RoutineBuffer &x = in[0], &first = out[0];
  const auto axis = static_cast<size_t>(call.numbers.at("axis").at(0));
  if (first.shape.size() != x.shape.size() || first.shape.at(axis) > x.shape.at(axis))
    userError("extremes: {} elements of {} are wanted", first.shape.at(axis), x.shape.at(axis));
  const auto whole = [](const RoutineBuffer& b, int64_t i) {
    return loadInteger(b.type, b.data, i);
  };
  if (isFloat(x.type))
    extremesOf<double>(call, in, out, numberAt);
  else if (x.type == DType::U64)
    extremesOf<uint64_t>(call, in, out, whole);
  else
    extremesOf<int64_t>(call, in, out, whole);
}

/// The probabilities of classes that agree best with `wins[i * k + j]`, that of class i where i or j is the case: they minimise
/// sum over i, j of (wins[j, i] p[i] - wins[i, j] p[j])^2 (Wu, Lin, Weng 2004), a coordinate after the other, up to an error of 0.005 / k.
std::vector<double> coupled(const std::vector<double>& wins, size_t k) {
  std::vector<double> form(k * k, 0), p(k, 1.0 / static_cast<double>(k)), slope(k);
  for (size_t i = 0; i < k; ++i)
    for (size_t j = 0; j < k; ++j) {
      if (i == j) continue;
      form[i * k + i] += wins[j * k + i] * wins[j * k + i];
      form[i * k + j] = -wins[j * k + i] * wins[i * k + j];
    }
  for (int round = 0; round < 100; ++round) {
    double value = 0, error = 0;
    for (size_t i = 0; i < k; ++i) {
      const auto row = form.begin() + static_cast<std::ptrdiff_t>(i * k);
      slope[i] = std::inner_product(p.begin(), p.end(), row, 0.0);
      value += p[i] * slope[i];
    }
    for (const double s : slope) error = std::max(error, std::abs(s - value));
    if (error < 0.005 / static_cast<double>(k)) break;
    for (size_t i = 0; i < k; ++i) {
      const double curve = form[i * k + i], step = (value - slope[i]) / curve, sum = 1 + step;
      value = (value + step * (step * curve + 2 * slope[i])) / (sum * sum);
      p[i] += step;
      for (size_t j = 0; j < k; ++j) {
        slope[j] = (slope[j] + step * form[i * k + j]) / sum;
        p[j] /= sum;
      }
    }
  }
  return p;
}

/// coupling (wins [rows, pairs]) -> [rows, classes]: of every class against every later one, the probability of the former.
void coupling(const Call&, const Buffers& in, const Buffers& out) {
  const RoutineBuffer &pairs = in[0], &result = out[0];
  const int64_t rows = pairs.shape.at(0), k = result.shape.at(1), n = k * (k - 1) / 2;
  if (pairs.shape.at(1) != n || result.shape.at(0) != rows || !isFloat(result.type))
    userError("coupling: {} pairs of {} classes, expected {}", pairs.shape.at(1), k, n);
  const auto at = [&](int64_t i, int64_t j) { return static_cast<size_t>(i * k + j); };
  std::vector<double> wins(static_cast<size_t>(k * k), 0);
  for (int64_t row = 0; row < rows; ++row) {
    int64_t from = row * n;
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = i + 1; j < k; ++j, ++from) {
        wins[at(i, j)] = numberAt(pairs, from);
        wins[at(j, i)] = 1 - wins[at(i, j)];
      }
    const std::vector<double> p = coupled(wins, static_cast<size_t>(k));
    for (int64_t i = 0; i < k; ++i)
      storeFloat(result.type, result.data, row * k + i, p[static_cast<size_t>(i)]);
  }
}

struct Routine {
  std::string_view name;
  size_t operands, results;
  void (*run)(const Call&, const Buffers&, const Buffers&);
};
constexpr Routine kRoutines[] = {{"places", 1, 2, places},
                                 {"unique", 1, 4, unique},
                                 {"nms", 5, 2, nms},
                                 {"extremes", 1, 2, extremes},
                                 {"coupling", 1, 1, coupling}};

const Routine* find(std::string_view name) {
  for (const Routine& r : kRoutines)
    if (r.name == name) return &r;
  return nullptr;
}

}  // namespace

bool isRoutine(std::string_view name) { return find(name); }

void runRoutine(const Call& call, const Buffers& operands, const Buffers& results) {
  const Routine* routine = find(call.routine);
  if (!routine) userError("no host routine '{}' here", call.routine);
  if (operands.size() != routine->operands || results.size() != routine->results)
    userError("{}: {} operands and {} results, expected {} and {}", call.routine, operands.size(),
              results.size(), routine->operands, routine->results);
  routine->run(call, operands, results);
}

}  // namespace tektite
