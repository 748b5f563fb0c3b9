#include "ir/expr.h"
namespace tektite {
}
