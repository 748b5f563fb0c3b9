#include "runtime/array.h"

#include <fmt/ranges.h>
#include <sys/mman.h>

#include <cstdlib>
#include <new>
#include <random>

namespace tektite {
namespace {

constexpr size_t kHugePage = 2 << 20;

}  // namespace

Memory::Memory(size_t bytes) : bytes_(bytes) {
  const size_t align = bytes >= 2 * kHugePage ? kHugePage : 64;
  const size_t whole = std::max(align, (bytes + align - 1) / align * align);
  data_.reset(static_cast<char*>(std::aligned_alloc(align, whole)));
  if (!data_) throw std::bad_alloc();
  if (align == kHugePage) madvise(data_.get(), whole, MADV_HUGEPAGE);
}

void Memory::Free::operator()(char* p) const { std::free(p); }

Array::Array(DType type, std::vector<int64_t> shape)
    : type(type),
      shape(std::move(shape)),
      memory(static_cast<size_t>(elementsOf(this->shape) * bytes(type))) {}

int64_t Array::elements() const { return elementsOf(shape); }

int64_t elementsOf(const std::vector<int64_t>& shape) {
  int64_t product = 1;
  for (int64_t extent : shape) product *= extent;
  return product;
}

std::string shapeText(DType type, const std::vector<int64_t>& shape) {
  return shape.empty() ? std::string(name(type))
                       : fmt::format("{}[{}]", name(type), fmt::join(shape, "x"));
}

Array randomArray(DType type, std::vector<int64_t> shape, uint64_t seed, int64_t limit) {
  Array array(type, std::move(shape));
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, 0.5);
  std::uniform_int_distribution<int64_t> whole(0, type == DType::Bool ? 1 : limit - 1);
  for (int64_t i = 0, n = array.elements(); i < n; ++i) {
    if (isFloat(type))
      storeFloat(type, array.data(), i, normal(random));
    else
      storeInteger(type, array.data(), i, whole(random));
  }
  return array;
}

}  // namespace tektite
