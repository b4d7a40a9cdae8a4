package tools

// EndTransaction is for the tests outside the package.
var EndTransaction = endTransaction
