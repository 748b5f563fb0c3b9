#pragma once
#include <map>
#include <optional>
#include <string>

#include "emit/artifact.h"

namespace tektite {

/// What nvcc makes of a source, where it is found (PATH).
struct NvccOutput {
  std::string ptx, cubin, sass;  ///< sass: as `nvdisasm -c` prints it, where that is found
  std::map<std::string, KernelResources>
      resources;  ///< of each entry; instructions where nvdisasm is found
  std::string log;
};
bool hasNvcc();
bool hasNvdisasm();
/// Nothing where it is missing; InternalError with its log where it refuses the source.
std::optional<NvccOutput> runNvcc(const std::string& source, const std::string& arch,
                                  const std::string& options);
/// How often the code of each entry names each instruction, modifiers left off, as `nvdisasm -c` prints it.
std::map<std::string, std::map<std::string, int>> parseSass(const std::string& text);
/// What `ptxas -v` prints, by entry.
std::map<std::string, KernelResources> parsePtxas(const std::string& log);

}  // namespace tektite
