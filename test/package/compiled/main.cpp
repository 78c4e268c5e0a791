#include "../plans.hpp"

int main() { return make_plans(); }
