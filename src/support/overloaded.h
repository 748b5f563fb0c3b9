#pragma once

namespace tektite {

/// A visitor out of lambdas, one a kind. No generic lambda in it: a new kind has to break every visit that forgot it.
template <class... Fs>
struct overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
overloaded(Fs...) -> overloaded<Fs...>;

}  // namespace tektite
