package vfs

// OS is the operating system's file system.
func OS() FS { panic("unwritten") }

// WriteFile replaces name atomically: a temporary file beside it (name + ".tmp"), fsync, rename, fsync of the directory.
func WriteFile(fsys FS, name string, data []byte) error { panic("unwritten") }

// ReadFile returns the whole content of name.
func ReadFile(fsys FS, name string) ([]byte, error) { panic("unwritten") }
