package main

func Example() {
	main()
	// Output:
	// ann, monday: the mat at the window
	// ann, tuesday: no, you are booked on monday
	// ann, monday: cancelled
	// ann, tuesday: the mat at the window
	// bob, monday: the mat at the window
	// cid, monday: no, the class is full
	// cid, friday: the mat at the window
}
