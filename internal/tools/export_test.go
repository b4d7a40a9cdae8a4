package tools

// EndTransaction is for the tests outside the package.
var EndTransaction = endTransaction

// LockedBuffer takes what several goroutines write.
type LockedBuffer = lockedBuffer
