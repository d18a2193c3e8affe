"""Rules for images: resizing, cropping, windows, boxes and colours."""
