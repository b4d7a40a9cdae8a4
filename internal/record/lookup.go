package record

// FindTime finds the first record of e at or after ms whose offset is not below from, without holding what e inflates to
// (at most limit bytes, *TooLargeError): -1, -1 if there is none. A batch that inflates enormously is looked through in a
// window as it was when it was validated; only old message sets are inflated whole.
func (e Entry) FindTime(from Offset, ms int64, limit int) (Offset, int64, error) {
	if e.Magic() != 2 {
		return e.findTimeInSet(from, ms, limit)
	}
	b := e.Batch()
	v := validations.get()
	defer v.close()
	if err := v.window.open(b, limit); err != nil {
		return -1, -1, err
	}
	var s sketch
	for range max(0, b.Count()) {
		whole, fault, err := v.window.next(&s)
		if err == nil && fault == "" {
			if whole {
				v.window.view = v.window.view[s.size:]
			} else {
				v.window.view = v.window.view[s.head:]
				fault, err = v.window.walkLong(&s, nil)
			}
		}
		if err != nil {
			return -1, -1, err
		}
		if fault != "" {
			return -1, -1, &FormatError{fault}
		}
		offset, timestamp := b.BaseOffset()+Offset(s.offsetDelta), b.BaseTimestamp()+s.timestampDelta
		if b.IsLogAppendTime() {
			timestamp = b.MaxTimestamp()
		}
		if offset >= from && timestamp >= ms {
			return offset, timestamp, nil
		}
	}
	return -1, -1, nil
}

func (e Entry) findTimeInSet(from Offset, ms int64, limit int) (Offset, int64, error) {
	var r Reader
	if err := r.ResetEntry(e, limit); err != nil {
		return -1, -1, err
	}
	for r.Next() {
		if rec := r.Record(); rec.Offset >= from && rec.Timestamp >= ms {
			return rec.Offset, rec.Timestamp, nil
		}
	}
	return -1, -1, r.Err()
}
