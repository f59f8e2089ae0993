//! Filters: which samples stay, by an expression.

pub mod expr;
pub mod fault;
mod lex;
pub mod parse;
pub mod short;
mod values;
