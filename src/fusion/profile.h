#pragma once
#include <map>
#include <string>

#include "support/hash.h"

namespace tektite {

/// Seconds that groups took on a machine, by the hash of their bodies: `tektite bench --write-profile FILE` measures those of a model, fused and
/// unfused. With it, a group that measured slower than its parts together is split. Text: a first line `tektite profile TARGET`, then a line
/// for each group, its hash and its seconds; what follows a `#` is for people.
struct Profile {
  std::string target;
  std::map<Hash, double> seconds;
  std::map<Hash, std::string> names;  ///< of groups, for people: written, not read
  std::string toText() const;         ///< those first that took most
};
/// UserError `file:line: what was found, what was expected`; `target`: of which it has to be.
Profile readProfile(const std::string& file, const std::string& target);

}  // namespace tektite
