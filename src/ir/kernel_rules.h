#pragma once
#include "ir/kernel_verify.h"
#include "ir/kernel_walk.h"

namespace tektite {

/// What is verified at a time, a kernel or an instruction's body, and what was found.
struct Subject {
  const KernelModule& module;
  const KernelVerifyOptions& options;
  std::string place;
  const std::vector<Dim>& dims;
  const std::vector<Param>& params;
  const Block& body;
  bool isIntrin;
  std::vector<KernelFault>& faults;

  Path path() const {
    Path p;
    p.declare(dims, params);
    return p;
  }
  void report(int rule, const Stmt& s, const std::string& what) const {
    faults.emplace_back(rule, place + ": `" + firstLine(s) + "`", what);
  }
  void report(int rule, const std::string& what) const { faults.emplace_back(rule, place, what); }
};

// Each finds what breaks its rules.
void checkNames(const Subject&);      // K1 K2 K3 K7 K13, operands of K8
void checkBounds(const Subject&);     // K4, tiles of K8
void checkStructure(const Subject&);  // K9
void checkSpaces(const Subject&);     // K6
void checkRegisters(const Subject&);  // K10
void checkFlow(const Subject&);       // K5 K11 K12, the plain cases

}  // namespace tektite
