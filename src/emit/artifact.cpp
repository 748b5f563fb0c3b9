#include "emit/artifact.h"

#include <set>

namespace tektite {

std::string sourceOf(const std::vector<const Artifact*>& artifacts) {
  std::string text;
  std::set<std::string> seen;
  for (const Artifact* a : artifacts)
    for (const std::string& helper : a->helpers)
      if (seen.insert(helper).second) text += helper;
  for (const Artifact* a : artifacts) text += (text.empty() ? "" : "\n") + a->text;
  return text;
}

}  // namespace tektite
