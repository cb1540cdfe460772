//! Laws and scenarios of the turn.
