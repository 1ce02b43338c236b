"""Linear trees and forests of them."""
