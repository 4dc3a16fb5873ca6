//! Tests of services: their pages over HTTP, and the verdicts about them.

mod pages;
mod trust_checker;
mod verdicts;
