#pragma once
#include <map>
#include <optional>
#include <string>

#include "emit/artifact.h"

namespace tektite {

/// What nvcc makes of a source, where it is found (PATH).
struct NvccOutput {
  std::string ptx, cubin;
  std::map<std::string, KernelResources> resources;  ///< of each entry
  std::string log;
};
bool hasNvcc();
/// Nothing where it is missing; InternalError with its log where it refuses the source.
std::optional<NvccOutput> runNvcc(const std::string& source, const std::string& arch,
                                  const std::string& options);
/// What `ptxas -v` prints, by entry.
std::map<std::string, KernelResources> parsePtxas(const std::string& log);

}  // namespace tektite
