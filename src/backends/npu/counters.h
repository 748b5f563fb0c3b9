#pragma once
#include <cstdint>
#include <map>
#include <string>

namespace tektite {

/// What a modelled machine did. Always simulated, never measured.
struct Simulated {
  int64_t launches = 0, gridSyncs = 0;
  int64_t bytesRead = 0, bytesWritten = 0;  ///< of main memory
  int64_t weightBytes = 0;                  ///< of bytesRead: constants
  int64_t scratchPeak = 0;                  ///< of the level where tiles work
  std::map<std::string, int64_t> peaks;     ///< of every level
  double cycles = 0;
  std::map<std::string, double> busy;  ///< cycles of each engine, all cores together
  void add(const Simulated& later);    ///< the same machine, one after the other
};

}  // namespace tektite
