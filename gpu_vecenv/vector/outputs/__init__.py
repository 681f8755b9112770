"""Results for callers: shapes and spaces of both views, and the arrays that a step writes."""
