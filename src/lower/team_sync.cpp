#include <map>
#include <set>

#include "ir/kernel_walk.h"
#include "lower/kernel_rewrite.h"
#include "lower/team.h"

namespace tektite {
namespace {

/// How often each way of touching a buffer: its index with the loops and conditions around it, as text. "": not to be compared.
struct Use {
  std::set<std::string> reads, writes;
};
using Uses = std::map<std::string, Use>;

void add(Uses& to, const Uses& from) {
  for (const auto& [name, use] : from) {
    to[name].reads.insert(use.reads.begin(), use.reads.end());
    to[name].writes.insert(use.writes.begin(), use.writes.end());
  }
}

/// Must `now` wait for what came before?
bool meets(const Uses& before, const Uses& now) {
  for (const auto& [name, use] : now) {
    const auto it = before.find(name);
    if (it == before.end()) continue;
    const Use& old = it->second;
    if (use.writes.empty() && old.writes.empty()) continue;
    std::set<std::string> ways;
    for (const Use* u : {&use, &old}) {
      ways.insert(u->reads.begin(), u->reads.end());
      ways.insert(u->writes.begin(), u->writes.end());
    }
    if (ways.size() > 1 || ways.count("")) return true;
  }
  return false;
}

bool isTeamLoop(const Stmt& s) {
  const For* f = s.as<For>();
  return f && (f->mode == LoopMode::Thread || f->mode == LoopMode::Warp);
}

class Syncs {
 public:
  Block run(const Block& body) {
    Block out;
    Uses pending;
    place(body, pending, out);
    return out;
  }

 private:
  std::set<std::string> own_;  // registers: nobody else sees them
  bool ended_ = false;         // shared memory that ended since the last sync may be in use still

  /// What a thread nest touches.
  Uses usesOf(const Stmt& nest) const {
    Uses out;
    std::set<std::string> own = own_;
    Path path;
    const auto way = [](const std::vector<Expr>& index, const Path& p, const Stmt& at) {
      std::string text;
      std::set<std::string> vars;
      for (const Expr& e : index) {
        if (!loadsOf(e).empty()) return std::string();
        text += toText(e) + ";";
        for (const std::string& v : freeVars(e)) vars.insert(v);
      }
      for (const Stmt* around : p.around) {
        if (const If* i = around->as<If>()) text += toText(i->condition) + "?";
        if (const For* f = around->as<For>(); f && vars.count(f->var))
          text += f->var + ":" + toText(f->extent);
      }
      return at.as<Copy>() ? std::string() : text;
    };
    walk({nest}, path,
         {[&](const Stmt& s, Path& p) {
            if (const Buffer* b = allocOf(s)) own.insert(b->name);
            const auto reads = [&](const Expr& e) {
              for (const Expr& l : loadsOf(e))
                if (const Load& x = *l.as<Load>(); !own.count(x.buffer))
                  out[x.buffer].reads.insert(way(x.index, p, s));
            };
            eachExpr(s, reads);
            const auto writes = [&](const Ref& r) {
              if (!own.count(r.buffer)) out[r.buffer].writes.insert(way(r.index, p, s));
            };
            if (const Store* t = s.as<Store>())
              for (const Ref& r : t->targets) writes(r);
            if (const Copy* c = s.as<Copy>(); c && c->to) {
              writes(*c->to);
              out[c->from.buffer].reads.insert("");
            }
            if (const Intrin* i = s.as<Intrin>())
              for (const IntrinArg& a : i->args)
                if (const Ref* r = std::get_if<Ref>(&a.value); r && !own.count(r->buffer)) {
                  out[r->buffer].reads.insert("");
                  out[r->buffer].writes.insert("");
                }
          },
          nullptr});
    return out;
  }

  /// What is left over from one round of a loop is met by the next at another value of its variable.
  static Uses fromEarlierRound(const Uses& pending, const std::string& variable) {
    Uses out;
    const auto other = [&](const std::set<std::string>& ways) {
      std::set<std::string> all;
      for (const std::string& w : ways)
        all.insert(w.find(variable) == std::string::npos ? w : std::string());
      return all;
    };
    for (const auto& [name, use] : pending) out[name] = {other(use.reads), other(use.writes)};
    return out;
  }

  void place(const Block& body, Uses& pending, Block& out) {
    std::set<std::string> here;
    for (const Stmt& s : body) {
      if (const Buffer* b = allocOf(s)) {
        if (b->space == "reg" || b->space == "frag") {
          own_.insert(b->name);
        } else {
          here.insert(b->name);
          if (ended_) pending[b->name].writes.insert("");
        }
        out.push_back(s);
      } else if (isTeamLoop(s)) {
        const Uses now = usesOf(s);
        if (meets(pending, now)) {
          out.push_back({Sync{Sync::Shared, "", 0}, ""});
          pending.clear();
          ended_ = false;
        }
        add(pending, now);
        out.push_back(s);
      } else if (const Sync* y = s.as<Sync>()) {
        if (y->kind != Sync::Queue) pending.clear(), ended_ = false;
        out.push_back(s);
      } else if (const For* f = s.as<For>()) {
        out.push_back(withBody(s, loop(*f, pending)));
      } else if (const Block* inner = bodyOf(s)) {
        Block inside;
        Uses after = pending;
        place(*inner, after, inside);
        if (s.as<If>()) add(after, pending);
        pending = std::move(after);
        out.push_back(withBody(s, std::move(inside)));
      } else {
        out.push_back(s);
      }
    }
    for (const std::string& name : here) ended_ = ended_ || pending.count(name);
  }
  /// A round begins with what the one before left, the first with what came before the loop.
  Block loop(const For& f, Uses& pending) {
    const bool ended = ended_;
    Block inside;
    Uses round = pending;
    place(f.body, round, inside);
    Uses again = fromEarlierRound(round, f.var);
    add(again, pending);
    ended_ = ended_ || ended;
    inside.clear();
    place(f.body, again, inside);
    if (asInteger(f.extent).value_or(0) < 1) add(again, pending);
    pending = std::move(again);
    return inside;
  }
};

}  // namespace

Block placeSyncs(Block tile) { return Syncs().run(tile); }

}  // namespace tektite
